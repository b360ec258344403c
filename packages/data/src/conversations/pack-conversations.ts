import { sharedFloat64Array, sharedInt32Array, sharedUint8Array } from '../files/typed-arrays.js';
import type { PackedConversations } from './conversation-dataset.js';
import { packRows } from './pack-rows.js';

/** A conversation as tokens. */
export interface EncodedConversation {
  readonly tokens: Int32Array;
  /** For each token 1 where it is learnt, else 0. */
  readonly isLearnt: Uint8Array;
}

/**
 * Packs conversations into rows of `sequenceLength` positions. A row has whole conversations only.
 *
 * @param conversations of 2 to `sequenceLength` + 1 tokens
 */
export function packConversations(
  conversations: readonly EncodedConversation[],
  sequenceLength: number,
): PackedConversations {
  const rows = packRows(
    conversations.map(({ tokens }) => tokens.length - 1),
    sequenceLength,
  );
  const offsets = sharedFloat64Array(conversations.length + 1);
  for (const [index, { tokens }] of conversations.entries())
    offsets[index + 1] = offsets[index]! + tokens.length;
  const tokens = sharedInt32Array(offsets.at(-1)!);
  const isLearnt = sharedUint8Array(offsets.at(-1)!);
  for (const [index, conversation] of conversations.entries()) {
    tokens.set(conversation.tokens, offsets[index]!);
    isLearnt.set(conversation.isLearnt, offsets[index]!);
  }
  const order = sharedInt32Array(conversations.length);
  const rowOffsets = sharedInt32Array(rows.length + 1);
  for (const [row, members] of rows.entries()) {
    order.set(members, rowOffsets[row]!);
    rowOffsets[row + 1] = rowOffsets[row]! + members.length;
  }
  return { sequenceLength, tokens, isLearnt, offsets, order, rowOffsets };
}
