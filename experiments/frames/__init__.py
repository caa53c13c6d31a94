"""Networks that are trained already, made rotation-invariant by PCA frames: as they are, and after a little fine-tuning."""
