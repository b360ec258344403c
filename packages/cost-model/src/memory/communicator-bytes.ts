import type { RankGroup } from '../operations/operation.js';
import type { GpuProfile } from '../profiles/hardware-profile.js';

/** A rank's use of a group. */
export interface GroupUse {
  readonly group: Pick<RankGroup, 'size' | 'perNode'>;
  readonly hasCollectives: boolean;
  /** Numbers of ranks of the group that this rank sends messages to, and receives messages from. */
  readonly numReceivers: number;
  readonly numSenders: number;
}

interface CommunicatorBytesOptions {
  readonly gpu: Pick<GpuProfile, 'communicator'>;
  /** Number of channels of NCCL's communicator for messages between two ranks. */
  readonly messageChannels: number;
}

/**
 * Returns the bytes that NCCL takes on the GPU of a rank, outside of the program's allocator. The
 * communicator of each group's collectives takes a ring through every channel. The communicators of messages,
 * one for each pair of ranks and direction, take the send or receive buffers. Trees and multicast, which NCCL
 * may add for small collectives, are not counted. Returns 0 for GPUs whose profile has no such constants.
 */
export function communicatorBytes(
  uses: readonly GroupUse[],
  { gpu, messageChannels }: CommunicatorBytesOptions,
): number {
  if (gpu.communicator === undefined) return 0;
  const { channelsInside, channelsBetween, receiveBytes, sendBytes } = gpu.communicator;
  return uses.reduce((sum, { group, hasCollectives, numReceivers, numSenders }) => {
    const isInside = group.size <= group.perNode;
    const sent = isInside ? sendBytes.value : receiveBytes.value;
    const channels = isInside ? channelsInside.value : channelsBetween.value;
    const collectives = hasCollectives ? channels * (receiveBytes.value + sent) : 0;
    const messages = messageChannels * (numSenders * receiveBytes.value + numReceivers * sent);
    return sum + collectives + messages;
  }, 0);
}
