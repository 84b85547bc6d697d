"""What training minimises: one file each, and the registry that names them."""
