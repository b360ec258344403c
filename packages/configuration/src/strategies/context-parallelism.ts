import { ConfigurationError, nearestDivisors } from '@mtl/errors';
import { choices, count } from '../flags/flag-kinds.js';
import { greatestCommonDivisor } from './greatest-common-divisor.js';
import { type StrategyCall, sizeOfAxis, strategy } from './strategy.js';
import type { tensorParallelFlags } from './tensor-parallelism.js';

/** How queries meet the keys of other processes, see @mtl/context-parallel. */
export type ContextCommunicationName = 'p2p' | 'all_gather' | 'a2a';

/** Absent in runs whose sequences are not divided. */
export interface ContextParallelConfiguration {
  readonly contextParallelSize?: number;
  /** One word for all layers, or one for each. */
  readonly cpCommType?: readonly ContextCommunicationName[];
}

/** The flags by which it is asked for. */
export const contextParallelFlags = {
  'context-parallel-size': count(
    'Processes over which every sequence is divided, attention included, for long contexts. Each has two equal parts of it, one from either end.',
    { default: 1 },
  ),
  'cp-comm-type': choices(
    ['p2p', 'all_gather', 'a2a'],
    'How queries meet the keys of other processes, for all layers or for each: keys go round in a ring, all keys go to all, or heads are exchanged for positions.',
    { defaultText: 'p2p' },
  ),
};

type Call = StrategyCall<typeof contextParallelFlags>;
/** Which sequence parallelism divides further. */
type WithTensorFlags = StrategyCall<typeof tensorParallelFlags>['flags'];

/**
 * Sequences divided over processes, attention included (Liu et al. 2023; Llama Team 2024): each process has
 * two of 2 n equal chunks, so that causal attention is the same work for all.
 */
export const contextParallelism = strategy<typeof contextParallelFlags, ContextParallelConfiguration>({
  flags: contextParallelFlags,
  axes: [{ name: 'cp', word: 'context', sizeOf: ({ contextParallelSize }) => contextParallelSize }],
  plannedAs: 'context',
  configure: (call) => {
    const { flags: given, notices } = call;
    const size = given.required('context-parallel-size');
    const cpCommType = given.get('cp-comm-type') ?? ['p2p'];
    if (size === 1) {
      if (given.get('cp-comm-type') !== undefined) {
        notices.push('--cp-comm-type has no effect with --context-parallel-size 1');
      }
      return {};
    }
    checkPositions(call, size);
    checkCommunication(call, size, cpCommType);
    return { contextParallelSize: size, cpCommType };
  },
  groups: ({ mesh }) => (mesh.sizes.cp === 1 ? {} : { cp: ['cp'], sequences: ['tp', 'cp'] }),
});

/** Two chunks of a sequence for each process, which sequence parallelism divides further. */
function checkPositions({ flags: given, model, axes }: Call, size: number): void {
  const { sequenceLength } = model;
  const written = given.written('context-parallel-size');
  if (sequenceLength === undefined) return;
  const tensor = (given as unknown as WithTensorFlags).required('sequence-parallel')
    ? sizeOfAxis(axes, 'tp')
    : 1;
  // n divides half of the sequence, and what sequence parallelism leaves of it
  const half = sequenceLength % 2 === 0 ? sequenceLength / 2 : 1;
  const shard = sequenceLength % tensor === 0 ? sequenceLength / tensor : 1;
  if (half % size === 0 && shard % size === 0) return;
  const nearest = nearestDivisors(greatestCommonDivisor(half, shard), size);
  throw new ConfigurationError(
    'MTL_CONTEXT_PARALLEL_SIZE',
    `${written} does not divide --seq-length ${sequenceLength} into two chunks for each process`,
    {
      expected: `${nearest.join(' or ')}, or a --seq-length that is a multiple of ${2 * size * tensor}`,
      remedy: `pass --context-parallel-size ${nearest.at(0)}, or --seq-length ${Math.ceil(sequenceLength / (2 * size * tensor)) * 2 * size * tensor}`,
      details: { size, sequenceLength, nearest },
    },
  );
}

/** A word for all layers or one for each; heads are exchanged where every process gets as many. */
function checkCommunication(
  { flags: given, model, axes }: Call,
  size: number,
  words: readonly ContextCommunicationName[],
): void {
  if (words.length !== 1 && words.length !== model.numLayers) {
    throw new ConfigurationError(
      'MTL_CONTEXT_PARALLEL_SIZE',
      `${given.written('cp-comm-type')} is ${words.length} words for ${model.numLayers} layers`,
      { expected: `one word, or ${model.numLayers}`, remedy: 'give one word for all layers' },
    );
  }
  if (!words.includes('a2a')) return;
  const tensor = sizeOfAxis(axes, 'tp');
  const numGroups =
    model.groupQueryAttention === true ? (model.numQueryGroups ?? 1) : model.numAttentionHeads;
  const own = numGroups / tensor;
  if (own % size === 0) return;
  const nearest = nearestDivisors(own, size);
  const name = model.groupQueryAttention === true ? 'num-query-groups' : 'num-attention-heads';
  throw new ConfigurationError(
    'MTL_CONTEXT_PARALLEL_SIZE',
    `${given.written('context-parallel-size')} does not divide --${name} ${numGroups}` +
      `${tensor > 1 ? ` over ${tensor} tensor-parallel ranks` : ''}: with a2a every process has some heads of all positions`,
    {
      expected: `${nearest.join(' or ')}, or another --cp-comm-type`,
      remedy: `pass --context-parallel-size ${nearest.at(0)}, or --cp-comm-type p2p`,
      details: { size, numGroups, tensor, nearest },
    },
  );
}
