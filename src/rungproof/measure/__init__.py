"""Everything that touches the running world: servers, clients, jobs. It writes raw records and never makes a number of them."""
