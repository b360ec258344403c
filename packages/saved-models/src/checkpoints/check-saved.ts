import type { Checkpoint } from '@mtl/checkpoint';
import { modelKinds, savedModelKeys, savedSizesOf } from '@mtl/configuration';
import { CheckpointError } from '@mtl/errors';
import { type GptModelConfiguration, numLayerWeights, numLearnedPositions } from '@mtl/models';
import { isOptimizerTensor } from '@mtl/trainer/internal';

/**
 * Compares the sizes of the model that a checkpoint remembers with the values that it holds, before anything
 * is made of these sizes: lists of names for each of 2^31 layers end a process, not a command.
 *
 * @throws CheckpointError MTL_CHECKPOINT_STATE (wrong input) when a size is none, or needs more values than
 *   there are
 */
export function checkSavedSizes({ path, state, tensors }: Checkpoint): void {
  const configuration = recordOf(recordOf(state).configuration);
  for (const kind of modelKinds) {
    const key = savedModelKeys[kind];
    if (configuration[key] === undefined) continue;
    const model = recordOf(configuration[key]);
    const fail = (problem: string, expected: string): never => {
      throw new CheckpointError('MTL_CHECKPOINT_STATE', `${path}: its manifest names ${problem}`, {
        expected,
        remedy: 'load another checkpoint, or copy this one again if it was copied',
        exitCode: 2,
      });
    };
    const { required, others } = savedSizesOf(kind);
    for (const name of [...required, ...others.filter((other) => model[other] !== undefined)]) {
      const size = model[name];
      if (!Number.isSafeInteger(size) || (size as number) < 1) {
        fail(`a model of ${name} ${JSON.stringify(size)}`, 'a whole number above 0');
      }
    }
    // a BERT has the same sizes
    const sizes = model as unknown as GptModelConfiguration;
    const { numLayers, hiddenSize, ffnHiddenSize, maxPositionEmbeddings, vocabularySize, numExperts } = sizes;
    const { makeVocabularySizeDivisibleBy: multiple = 1 } = sizes;
    const padded = Math.ceil(vocabularySize / multiple) * multiple;
    // matrices of layers, and embeddings: not all parameters, but most
    const atLeast = numLayerWeights(sizes) + (padded + numLearnedPositions(sizes)) * hiddenSize;
    let held = 0;
    for (const { name, globalShape } of tensors.values()) {
      if (!isOptimizerTensor(name)) held += globalShape.reduce((product, size) => product * size, 1);
    }
    if (atLeast > held) {
      fail(
        `a model of more than ${atLeast.toLocaleString('en-US')} parameters (${numLayers} layers, hidden size ` +
          `${hiddenSize}, MLP ${ffnHiddenSize}, ${numExperts === undefined ? '' : `${numExperts} experts, `}` +
          `${maxPositionEmbeddings} positions, vocabulary ${padded})`,
        `the ${held.toLocaleString('en-US')} that it holds`,
      );
    }
  }
}

function recordOf(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null ? (value as Readonly<Record<string, unknown>>) : {};
}
