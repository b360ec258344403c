import type { AttentionCall, Heads } from '@mtl/autograd';

/**
 * The communication with which queries attend to the keys of other processes:
 * - `all_gather`: every process gathers all keys and values (Llama Team 2024, 3.3.2)
 * - `p2p`: keys and values are passed around a ring of processes, and partial results are merged (Ring
 *   Attention, Liu et al. 2023)
 * - `a2a`: every process gets all positions of some heads (DeepSpeed-Ulysses, Jacobs et al. 2023)
 * - `a2a+p2p`: blocks of neighbouring processes exchange heads, and keys and values are passed around the
 *   blocks (USP, Fang and Zhao 2024)
 */
export type ContextCommunication = 'all_gather' | 'p2p' | 'a2a' | 'a2a+p2p';

/** The options of an attention call, without the heads: visibility, scale and dropout. */
export type AttendedCall = Omit<AttentionCall, keyof Heads<unknown>>;
