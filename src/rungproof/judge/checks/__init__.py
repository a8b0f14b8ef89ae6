"""What a verifier checks beyond bytes and signatures (levels L2 to L4). Pure: files come in through a function, findings go out."""
