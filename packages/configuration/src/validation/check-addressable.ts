import { ConfigurationError } from '@mtl/errors';
import type {
  ModelConfiguration,
  ParallelConfiguration,
  TrainingConfiguration,
} from '../pretraining-configuration.js';
import type { FlagName } from '../schema/flag-schema.js';
import type { FlagReader } from './flag-reader.js';

/** The bytes that a process can address on today's 64-bit machines, whatever their memory. */
const addressableBytes = 2 ** 47;
/** A weight, its gradient and both moments of Adam, in float32. */
const bytesPerParameter = 16;

export interface CheckAddressableOptions {
  readonly flags: FlagReader;
  readonly model: ModelConfiguration;
  readonly training: Pick<TrainingConfiguration, 'microBatchSize'>;
  readonly parallel: Pick<
    ParallelConfiguration,
    | 'tensorModelParallelSize'
    | 'pipelineModelParallelSize'
    | 'expertModelParallelSize'
    | 'expertTensorParallelSize'
  >;
}

/**
 * Refuses sizes that no machine could hold, such as one with a few zeros too many: whether a model fits a
 * machine at hand, `mtl plan` reports.
 *
 * @throws ConfigurationError `MTL_TOO_LARGE` with the flags that make it so
 */
export function checkAddressable({ flags, model, training, parallel }: CheckAddressableOptions): void {
  const { numLayers: layers, hiddenSize: hidden, ffnHiddenSize: ffn, sequenceLength } = model;
  const numProcesses = parallel.tensorModelParallelSize * parallel.pipelineModelParallelSize;
  const perParameter = bytesPerParameter / numProcesses;
  const { numExperts = 0, moeFfnHiddenSize: width = ffn } = model;
  const { expertModelParallelSize: ep = 1, expertTensorParallelSize: etp = 1 } = parallel;
  const perExpertParameter = bytesPerParameter / (ep * etp * parallel.pipelineModelParallelSize);
  const withExperts = numExperts === 0 ? 0 : numLayersWithExperts(model);
  const tokens = training.microBatchSize * sequenceLength;
  // lower bounds: from flags alone
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
      'position embeddings',
      model.maxPositionEmbeddings * hidden * perParameter,
      ['max-position-embeddings', 'seq-length', 'hidden-size'],
    ],
    [
      'token embeddings',
      model.makeVocabSizeDivisibleBy * hidden * perParameter,
      ['make-vocab-size-divisible-by', 'hidden-size'],
    ],
    // in two bytes a value, sharded along the sequence
    [
      'activations of a micro-batch',
      (2 * tokens * hidden) / parallel.tensorModelParallelSize,
      ['micro-batch-size', 'seq-length', 'hidden-size'],
    ],
  ];
  for (const [what, numBytes, names] of parts) {
    if (numBytes <= addressableBytes) continue;
    const written = names.filter((name) => flags.get(name) !== undefined).map((name) => flags.written(name));
    throw new ConfigurationError(
      'MTL_TOO_LARGE',
      `${written.join(', ')}: the ${what} would take ${numBytes.toExponential(1)} bytes of a process`,
      {
        expected: `at most ${addressableBytes.toExponential(1)}, which is what a process can address`,
        remedy: 'choose smaller ones; mtl plan reports what fits into memory',
        details: { numBytes, flags: names },
      },
    );
  }
}

function numLayersWithExperts({ numLayers, moeLayerFreq = 1 }: ModelConfiguration): number {
  return typeof moeLayerFreq === 'number'
    ? Math.ceil(numLayers / moeLayerFreq)
    : moeLayerFreq.filter((layer) => layer === 1).length;
}
