"""Tools on programs that go wrong: canaries, the cases of lesson 30, transcripts of what a tool said."""
