"""What a host is: its processor, memory and settings, as the kernel shows them."""
