"""3D MNIST: download MNIST, and build the clouds of 3D MNIST from it, as its author did."""
