"""Part segmentation on ShapeNet Part in any orientation: ordinary networks and revised ones."""
