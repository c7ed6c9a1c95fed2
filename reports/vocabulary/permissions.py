"""Which operation of an ACL a request needs, by what it was refused for.

Out of "Operations and Resources on Protocols" in Kafka's documentation of its authorizers, and, for APIs that came
since, out of the calls of kafka.server.AuthHelper in KafkaApis and ControllerApis.
"""

from __future__ import annotations

from kafkascope.decoders.errors import Error

_TOPICS = {
    "Read": "Fetch OffsetCommit TxnOffsetCommit OffsetDelete ShareFetch ShareAcknowledge",
    "Write": "Produce AddPartitionsToTxn",
    "Describe": "Metadata ListOffsets OffsetFetch OffsetForLeaderEpoch DescribeTopicPartitions ConsumerGroupHeartbeat "
    "ConsumerGroupDescribe ShareGroupHeartbeat ShareGroupDescribe StreamsGroupHeartbeat StreamsGroupDescribe",
    "Create": "CreateTopics",
    "Delete": "DeleteTopics DeleteRecords",
    "Alter": "CreatePartitions",
    "AlterConfigs": "AlterConfigs IncrementalAlterConfigs",
    "DescribeConfigs": "DescribeConfigs",
}
_GROUPS = {
    "Read": "JoinGroup SyncGroup Heartbeat LeaveGroup OffsetCommit TxnOffsetCommit AddOffsetsToTxn "
    "ConsumerGroupHeartbeat ShareGroupHeartbeat ShareFetch ShareAcknowledge StreamsGroupHeartbeat",
    "Describe": "FindCoordinator OffsetFetch DescribeGroups ListGroups ConsumerGroupDescribe ShareGroupDescribe "
    "DescribeShareGroupOffsets StreamsGroupDescribe",
    "Delete": "DeleteGroups OffsetDelete DeleteShareGroupOffsets",
    "AlterConfigs": "IncrementalAlterConfigs",
    "DescribeConfigs": "DescribeConfigs",
}
_TRANSACTIONAL_IDS = {
    "Write": "Produce InitProducerId AddPartitionsToTxn AddOffsetsToTxn EndTxn TxnOffsetCommit",
    "Describe": "FindCoordinator DescribeTransactions",
}
_CLUSTER = {
    "IdempotentWrite": "InitProducerId Produce",
    "ClusterAction": "Fetch OffsetForLeaderEpoch",  # of replicas
    "Create": "CreateTopics Metadata",
    "Describe": "DescribeAcls DescribeLogDirs DescribeCluster DescribeQuorum ListPartitionReassignments ListGroups",
    "DescribeConfigs": "DescribeConfigs DescribeClientQuotas ListConfigResources",
    "Alter": "CreateAcls DeleteAcls AlterPartitionReassignments ElectLeaders AlterReplicaLogDirs UpdateFeatures "
    "AlterUserScramCredentials UnregisterBroker AddRaftVoter RemoveRaftVoter",
    "AlterConfigs": "AlterConfigs IncrementalAlterConfigs AlterClientQuotas",
}

REFUSED: dict[Error, str] = {
    Error.TOPIC_AUTHORIZATION_FAILED: "topic",
    Error.GROUP_AUTHORIZATION_FAILED: "group",
    Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "transactional id",
    Error.CLUSTER_AUTHORIZATION_FAILED: "cluster",
}
"""On what a permission is missing, by error."""

OPERATIONS: dict[tuple[Error, str], str] = {
    (error, api): operation
    for error, of_kind in zip(REFUSED, (_TOPICS, _GROUPS, _TRANSACTIONAL_IDS, _CLUSTER), strict=True)
    for operation, apis in of_kind.items()
    for api in apis.split()
}
"""The operation that is needed, by error and API."""

SEEKERS: dict[str, str] = {
    "group": "a member needs Read, which implies it",
    "transactional id": "a producer needs Write, which implies it",
}
"""What those who may not even look for a coordinator will be refused next, by what it is of.

That an operation implies Describe is told in the documentation of ``AclOperation``.
"""
