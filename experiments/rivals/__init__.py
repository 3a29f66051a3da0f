"""What our methods are compared with."""
