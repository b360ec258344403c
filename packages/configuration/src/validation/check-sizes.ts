import { ConfigurationError } from '@mtl/errors';
import { sizeOfAdapters } from '../adapters/adapter-configuration.js';
import type {
  ModelConfiguration,
  ParallelConfiguration,
  TrainingConfiguration,
} from '../pretraining-configuration.js';
import type { FlagName } from '../schema/flag-schema.js';
import { type AxisSizes, meshOfRun } from '../strategies/strategies.js';
import type { FlagReader } from './flag-reader.js';

/** The number of bytes that a process can address on a 64-bit machine, regardless of its memory. */
const addressableBytes = 2 ** 47;
/** Bytes of a float32 weight, its gradient and both of Adam's moments. */
const bytesPerParameter = 16;

interface CheckSizesOptions {
  readonly flags: FlagReader;
  readonly model: ModelConfiguration;
  readonly training: Pick<TrainingConfiguration, 'microBatchSize'>;
  readonly parallel: AxisSizes & Pick<ParallelConfiguration, 'worldSize'>;
}

/**
 * Rejects models that would not fit into any machine, for example because the user has typed too many zeros.
 * This check runs before memory is allocated. `mtl plan` reports whether a model fits into a given machine.
 *
 * @throws ConfigurationError `MTL_TOO_LARGE`, which names the flags that cause the size
 */
export function checkSizes(options: CheckSizesOptions): void {
  checkAddressable(options);
  checkCounts(options);
}

const mostLayers = 10_000;

/**
 * Rejects a number of layers for which lists of pipeline chunks would exhaust memory. It is called before
 * such lists are made.
 *
 * @throws ConfigurationError `MTL_TOO_LARGE`
 */
export function checkLayersOfPipeline(flags: FlagReader): void {
  const numLayers = flags.required('num-layers');
  if (numLayers <= mostLayers || flags.required('pipeline-model-parallel-size') === 1) return;
  const names = ['num-layers', 'pipeline-model-parallel-size'] as const;
  throw tooLarge({ flags, names, problem: `${numLayers} layers`, expected: `at most ${mostLayers}` });
}

/**
 * Rejects counts for which lists would exhaust memory. The limits are larger than the counts of any real run.
 */
function checkCounts({ flags, model, training, parallel }: CheckSizesOptions): void {
  const { worldSize } = parallel;
  const numTokens = training.microBatchSize * model.sequenceLength;
  const counts: ReadonlyArray<
    readonly [what: string, count: number | undefined, most: number, names: readonly FlagName[]]
  > = [
    ['layers', flags.get('num-layers'), mostLayers, ['num-layers']],
    ['experts of a layer', flags.get('num-experts'), 65_536, ['num-experts']],
    ['threads of a process', flags.get('threads'), 1024, ['threads']],
    ['steps of Newton-Schulz', flags.get('muon-num-ns-steps'), 1000, ['muon-num-ns-steps']],
    ['processes', worldSize, 1 << 16, ['num-processes']],
    ['tokens of a micro-batch', numTokens, 1 << 24, ['micro-batch-size', 'seq-length']],
  ];
  for (const [what, count, most, names] of counts) {
    if (count === undefined || count <= most) continue;
    throw tooLarge({ flags, names, problem: `${count} ${what}`, expected: `at most ${most}` });
  }
}

/** The largest number of micro-batches in a step. Each is an action in a schedule, which takes memory. */
const mostMicroBatches = 100_000;
/**
 * The maximum number of forward and backward passes in the schedules of a run, over all pipeline stages and
 * all different sizes of steps.
 */
const mostPasses = 1 << 22;

const flagsOfBatches: readonly FlagName[] = ['global-batch-size', 'rampup-batch-size', 'micro-batch-size'];

/**
 * Rejects a number of micro-batches per step for which schedules would exhaust memory.
 *
 * @throws ConfigurationError `MTL_TOO_LARGE`
 */
export function checkMicroBatches(
  flags: FlagReader,
  options: {
    /** The largest number of micro-batches in a step, which is reached after a ramp-up. */
    readonly numMicroBatches: number;
    readonly pipelineSize: number;
    /**
     * Returns every number of micro-batches that occurs in a step. Called only if the largest number is
     * allowed.
     */
    readonly counts: () => Iterable<number>;
  },
): void {
  const { numMicroBatches, pipelineSize, counts } = options;
  const refuse = (problem: string, most: number): ConfigurationError =>
    tooLarge({ flags, names: flagsOfBatches, problem, expected: `at most ${most}` });
  if (numMicroBatches > mostMicroBatches) {
    throw refuse(`${numMicroBatches} micro-batches in a step`, mostMicroBatches);
  }
  let passes = 0;
  for (const count of counts()) passes += count * pipelineSize;
  if (passes > mostPasses) throw refuse(`${passes} passes of pipeline stages in its schedules`, mostPasses);
}

function tooLarge(options: {
  readonly flags: FlagReader;
  readonly names: readonly FlagName[];
  readonly problem: string;
  readonly expected: string;
  readonly numBytes?: number;
}): ConfigurationError {
  const { flags, names, problem, expected, numBytes } = options;
  const written = names.filter((name) => flags.get(name) !== undefined).map((name) => flags.written(name));
  return new ConfigurationError('MTL_TOO_LARGE', `${written.join(', ') || 'the run'}: ${problem}`, {
    expected,
    remedy: 'choose smaller ones; mtl plan reports what fits into memory',
    details: { ...(numBytes === undefined ? {} : { numBytes }), flags: names },
  });
}

/**
 * Rejects a configuration whose tensors need more bytes than a process can address.
 *
 * @throws ConfigurationError `MTL_TOO_LARGE`
 */
function checkAddressable({ flags, model, training, parallel }: CheckSizesOptions): void {
  const { numLayers: layers, hiddenSize: hidden, ffnHiddenSize: ffn, sequenceLength } = model;
  const mesh = meshOfRun(parallel);
  const perParameter = bytesPerParameter / mesh.numShards('dense');
  const { numExperts = 0, moeFfnHiddenSize: width = ffn } = model;
  const perExpertParameter = bytesPerParameter / mesh.numShards('expert');
  const withExperts = numExperts === 0 ? 0 : numLayersWithExperts(model);
  const tokens = training.microBatchSize * sequenceLength;
  const adapters = sizeOfAdapters(flags, { numFeatures: layers * hidden });
  // lower bounds of memory, computed only from flags
  const parts: ReadonlyArray<readonly [what: string, numBytes: number, names: readonly FlagName[]]> = [
    [
      'layers',
      hidden * (layers * 4 * hidden + (layers - withExperts) * 2 * ffn) * perParameter,
      ['num-layers', 'hidden-size', 'ffn-hidden-size'],
    ],
    [
      'experts',
      withExperts * numExperts * hidden * 2 * width * perExpertParameter,
      ['num-layers', 'hidden-size', 'num-experts', 'moe-ffn-hidden-size', 'ffn-hidden-size'],
    ],
    [
      'attention heads',
      layers * 2 * hidden * model.numAttentionHeads * model.headSize * perParameter,
      ['num-layers', 'hidden-size', 'num-attention-heads', 'kv-channels'],
    ],
    [
      'shared experts',
      withExperts * 2 * hidden * (model.moeSharedExpertIntermediateSize ?? 0) * perParameter,
      ['num-layers', 'hidden-size', 'moe-shared-expert-intermediate-size'],
    ],
    ['adapters', adapters.numValues * perParameter, ['num-layers', 'hidden-size', adapters.flag]],
    [
      'position embeddings',
      model.maxPositionEmbeddings * hidden * perParameter,
      ['max-position-embeddings', 'seq-length', 'hidden-size'],
    ],
    [
      'token embeddings',
      Math.max(model.makeVocabSizeDivisibleBy, flags.get('vocab-size') ?? 0) * hidden * perParameter,
      ['vocab-size', 'make-vocab-size-divisible-by', 'hidden-size'],
    ],
    // at least two bytes per value, sharded by sequence parallelism
    [
      'activations of a micro-batch',
      (2 * tokens * hidden) / parallel.tensorModelParallelSize,
      ['micro-batch-size', 'seq-length', 'hidden-size'],
    ],
  ];
  for (const [what, numBytes, names] of parts) {
    if (numBytes <= addressableBytes) continue;
    const problem = `the ${what} would take ${numBytes.toExponential(1)} bytes of a process`;
    const expected = `at most ${addressableBytes.toExponential(1)}, which is what a process can address`;
    throw tooLarge({ flags, names, problem, expected, numBytes });
  }
}

function numLayersWithExperts({ numLayers, moeLayerFreq = 1 }: ModelConfiguration): number {
  return typeof moeLayerFreq === 'number'
    ? Math.ceil(numLayers / moeLayerFreq)
    : moeLayerFreq.filter((layer) => layer === 1).length;
}
