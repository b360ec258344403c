import type { RankGroup } from '../operations/operation.js';
import type { GpuProfile } from '../profiles/hardware-profile.js';

/** A rank's use of a group for communication. */
export interface GroupUse {
  readonly group: Pick<RankGroup, 'size' | 'perNode'>;
  readonly hasCollectives: boolean;
  /** How many ranks of the group this rank sends messages to, and from how many it receives messages. */
  readonly numReceivers: number;
  readonly numSenders: number;
}

interface CommunicatorBytesOptions {
  readonly gpu: Pick<GpuProfile, 'communicator'>;
  /** Number of channels in NCCL's communicator for messages between two ranks. */
  readonly messageChannels: number;
}

/**
 * Returns the bytes that NCCL takes on the GPU of a rank, outside of the program's allocator. The
 * communicator for a group's collectives has a ring through every channel. There is a communicator for
 * messages for each pair of ranks and direction, with send or receive buffers. Trees and multicast, which
 * NCCL may add for small collectives, are not counted. Returns 0 for GPUs whose profile lacks these
 * constants.
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
