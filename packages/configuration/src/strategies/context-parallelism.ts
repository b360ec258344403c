import { type ContextCommunication, contextPartition } from '@mtl/context-parallel';
import { ConfigurationError, nearestDivisors } from '@mtl/errors';
import { choices, count, counts } from '../flags/flag-kinds.js';
import type { FlagValues } from '../flags/flag-values.js';
import {
  greatestCommonDivisor,
  powersOfTwo,
  type SearchedRun,
  type StrategyCall,
  sizeOfAxis,
  strategy,
} from './strategy.js';
import type { tensorParallelFlags } from './tensor-parallelism.js';

/** The flags that request context parallelism. */
export const contextParallelFlags = {
  'context-parallel-size': count(
    'Processes over which every sequence is divided, attention included, for long contexts. Each has two equal parts of it, one from either end.',
    { default: 1 },
  ),
  'cp-comm-type': choices(
    ['p2p', 'all_gather', 'a2a', 'a2a+p2p'],
    'How queries meet the keys of other processes, for all layers or for each: keys go round in a ring, all keys go to all, heads are exchanged for positions, or these within blocks of neighbours and keys round the blocks.',
    { defaultText: 'p2p' },
  ),
  'hierarchical-context-parallel-sizes': counts(
    'Processes that exchange heads, and blocks of these in a ring, with --cp-comm-type a2a+p2p: two sizes whose product is --context-parallel-size.',
    'N M',
  ),
};

/** The settings for context parallelism; absent in runs without context parallelism. */
export interface ContextParallelConfiguration
  extends Omit<Partial<FlagValues<typeof contextParallelFlags>>, 'hierarchicalContextParallelSizes'> {
  /**
   * Defined for `a2a+p2p`: the number of neighbouring processes that exchange heads, then the number of such
   * groups in a ring.
   */
  readonly hierarchicalContextParallelSizes?: readonly [number, number];
}

type Call = StrategyCall<typeof contextParallelFlags>;
/**
 * The flags for tensor parallelism. They are needed because the tensor-parallel size further divides the
 * chunks of sequence parallelism.
 */
type WithTensorFlags = StrategyCall<typeof tensorParallelFlags>['flags'];

/**
 * Context parallelism: sequences are sharded over processes, including attention (Liu et al. 2023; Llama Team
 * 2024). A sequence has `2 * n` equal chunks, where n is the number of processes. Each process has two of
 * these chunks, chosen so that causal attention costs the same on all processes.
 */
export const contextParallelism = strategy<typeof contextParallelFlags, ContextParallelConfiguration>({
  flags: contextParallelFlags,
  axes: [
    {
      name: 'cp',
      flag: 'context-parallel-size',
      field: 'contextParallelSize',
      search: (run) => ({ sizes: [1, ...sizesToTry(run)], fits: (size) => run.rest % size === 0 }),
    },
  ],
  countsAs: 'cp',
  communicatesInPasses: true,
  sharing: {
    help: { 'context-parallel-size': 'Processes over which every sequence is divided, to score long texts.' },
    configure: ({ 'context-parallel-size': size = 1 }) => (size === 1 ? {} : { contextParallelSize: size }),
    checkGeneration: ({ 'context-parallel-size': size = 1 }) => {
      if (size === 1) return;
      throw new ConfigurationError(
        'MTL_CONTEXT_PARALLEL',
        `--context-parallel-size ${size}: a text is continued on ranks that have all of it`,
        {
          expected: '--context-parallel-size 1',
          remedy: 'leave it out; --tensor-model-parallel-size divides what is kept of a text by heads',
          details: { size },
        },
      );
    },
  },
  // all_gather is the default for a trained model, because gathering all keys is the simplest communication,
  // and because scoring computes each text only once
  ofModel: ({ groups: { cp, sequences, cpHeads, cpRing }, fields: { cpCommType = ['all_gather'] } }) => ({
    sequence:
      cp &&
      contextPartition({
        group: cp,
        groupWithTensor: sequences,
        communication: cpCommType,
        levels: cpHeads && cpRing && { heads: cpHeads, ring: cpRing },
      }),
  }),
  configure: (call) => {
    const { flags: given, notices } = call;
    const size = given.required('context-parallel-size');
    const cpCommType = given.get('cp-comm-type') ?? ['p2p'];
    if (size === 1) {
      for (const name of ['cp-comm-type', 'hierarchical-context-parallel-sizes'] as const) {
        if (given.get(name) === undefined) continue;
        notices.push(`--${name} has no effect with --context-parallel-size 1`);
      }
      return {};
    }
    checkPositions(call, size);
    const levels = readLevels(call, { size, words: cpCommType });
    checkCommunication(call, { size, words: cpCommType, levels });
    return {
      contextParallelSize: size,
      cpCommType,
      ...(levels === undefined ? {} : { hierarchicalContextParallelSizes: levels }),
    };
  },
  groups: ({ mesh, fields: { hierarchicalContextParallelSizes: levels } }) => {
    if (mesh.sizes.cp === 1) return {};
    const all = { cp: ['cp'], sequences: ['tp', 'cp'] } as const;
    if (levels === undefined) return all;
    const [blockSize] = levels;
    return {
      ...all,
      cpHeads: { axes: ['cp'], blockSize },
      cpRing: { axes: ['cp'], blockSize, across: true },
    } as const;
  },
});

/**
 * The smallest chunk, in positions, for which a layout search tries context parallelism. With shorter chunks,
 * the communication would take longer than the computation that it saves.
 */
const leastChunk = 1024;

/**
 * Returns the context-parallel sizes to try, for a GPT with long sequences. Each process gets two chunks of a
 * sequence.
 */
function sizesToTry({ model, values }: SearchedRun): readonly number[] {
  const length = model === 'gpt' ? (values['seq-length'] as number) : 0;
  const most = Math.floor(length / (2 * leastChunk));
  return powersOfTwo(Math.max(1, most))
    .slice(1)
    .filter((size) => length % (2 * size) === 0);
}

/**
 * Checks that sequences can be split into two equal chunks for each process, and that sequence parallelism
 * can divide the chunks further.
 */
function checkPositions({ flags: given, model, axes }: Call, size: number): void {
  const { sequenceLength } = model;
  const written = given.written('context-parallel-size');
  if (sequenceLength === undefined) return;
  const tensor = (given as unknown as WithTensorFlags).required('sequence-parallel')
    ? sizeOfAxis(axes, 'tp')
    : 1;
  // n must divide half of the sequence, and also the section of the sequence that each tensor-parallel
  // process has
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

interface Communication {
  readonly size: number;
  readonly words: readonly ContextCommunication[];
}

/**
 * Returns the sizes of the two communication levels, if the type of communication of a layer has two levels.
 */
function readLevels(
  { flags: given, notices }: Call,
  { size, words }: Communication,
): [number, number] | undefined {
  const name = 'hierarchical-context-parallel-sizes';
  const levels = given.get(name);
  if (!words.includes('a2a+p2p')) {
    if (levels !== undefined) notices.push(`--${name} has no effect without --cp-comm-type a2a+p2p`);
    return undefined;
  }
  const [heads = 0, ring = 0] = levels ?? [];
  if (levels !== undefined && heads * ring === size) return [heads, ring];
  const inner = nearestDivisors(size, 2).at(0)!;
  throw new ConfigurationError(
    'MTL_CONTEXT_PARALLEL_SIZE',
    levels === undefined
      ? `--cp-comm-type a2a+p2p needs --${name}`
      : `${given.written(name)} are no two sizes whose product is --context-parallel-size ${size}`,
    {
      expected: `processes that exchange heads, and blocks of such processes: --${name} N M with N x M = ${size}`,
      remedy: `pass --${name} ${inner} ${size / inner}`,
      details: { size, levels },
    },
  );
}

/**
 * Checks that there is either one type of communication for all layers, or one type for each layer. If a
 * layer uses an all-to-all, also checks that the heads divide evenly over the processes.
 */
function checkCommunication(
  { flags: given, model, axes }: Call,
  { size, words, levels }: Communication & { readonly levels: readonly [number, number] | undefined },
): void {
  if (words.length !== 1 && words.length !== model.numLayers) {
    given.refuse('cp-comm-type', `is ${words.length} words for ${model.numLayers} layers`, {
      code: 'MTL_CONTEXT_PARALLEL_SIZE',
      expected: `one word, or ${model.numLayers}`,
      remedy: 'give one word for all layers',
    });
  }
  // the number of processes among which heads are exchanged
  const isWhole = words.includes('a2a');
  const sharing = isWhole ? size : (levels?.[0] ?? 1);
  const asked = isWhole
    ? given.written('context-parallel-size')
    : `the first of ${given.written('hierarchical-context-parallel-sizes')}`;
  const tensor = sizeOfAxis(axes, 'tp');
  const numGroups =
    model.groupQueryAttention === true ? (model.numQueryGroups ?? 1) : model.numAttentionHeads;
  const own = numGroups / tensor;
  if (own % sharing === 0) return;
  const nearest = nearestDivisors(own, sharing);
  const name = model.groupQueryAttention === true ? 'num-query-groups' : 'num-attention-heads';
  throw new ConfigurationError(
    'MTL_CONTEXT_PARALLEL_SIZE',
    `${asked} does not divide --${name} ${numGroups}` +
      `${tensor > 1 ? ` over ${tensor} tensor-parallel ranks` : ''}: with a2a every process has some heads of ${isWhole ? 'all' : 'many'} positions`,
    {
      expected: `${nearest.join(' or ')}, or another --cp-comm-type`,
      remedy: `pass ${isWhole ? `--context-parallel-size ${nearest.at(0)}` : `${nearest.at(0)} as the first size`}, or --cp-comm-type p2p`,
      details: { size, numGroups, tensor, nearest },
    },
  );
}
