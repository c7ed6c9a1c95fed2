"""What the cluster's own words say of it: brokers, leaders and coordinators, and who moved when."""
