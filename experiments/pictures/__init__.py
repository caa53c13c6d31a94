"""Pictures of clouds, of evaluations and of the demo."""
