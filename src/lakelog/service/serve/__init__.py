"""The door for programs on the network: Arrow Flight SQL, changes, writes, and the tools of MCP."""
