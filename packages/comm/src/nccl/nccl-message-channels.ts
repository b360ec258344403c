/** Channels of an NCCL communicator for messages of one rank to another: `kMessageBlocks` of its service. */
export const ncclMessageChannels = 8;
