"""What the networks of Table 5 keep under rotations, reorderings and translations: claimed and measured."""
