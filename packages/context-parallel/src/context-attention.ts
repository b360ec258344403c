import type { AttentionCall } from '@mtl/autograd';

/**
 * The communication by which queries meet the keys of other processes. `all_gather`: every process gets the
 * keys and values of all (Llama Team 2024, 3.3.2); `p2p`: they go round in a ring, and partial results are
 * merged (Ring Attention, Liu et al. 2023); `a2a`: every process gets all positions of some heads
 * (DeepSpeed-Ulysses, Jacobs et al. 2023); `a2a+p2p`: blocks of neighbours exchange heads, and keys go round
 * the blocks (USP, Fang and Zhao 2024).
 */
export type ContextCommunication = 'all_gather' | 'p2p' | 'a2a' | 'a2a+p2p';

/** The heads, masks and dropout of a call, without its operand. */
export type AttendedHeads = Omit<AttentionCall, 'qkv'>;
