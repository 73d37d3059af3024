"""What all classes of the drop-in use."""
