"""What is trained and compared, one file or folder for each system."""
