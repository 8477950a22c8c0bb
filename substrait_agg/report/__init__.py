"""What validation and explain say, in every form it is shown in."""
