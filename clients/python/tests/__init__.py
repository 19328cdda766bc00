"""Tests against the real server: `LINECLEAR_BIN` names its binary."""
