import { dirname } from 'node:path';
import type { Checkpoint } from '@mtl/checkpoint';
import { readSavedConfiguration, type SavedConfiguration } from '@mtl/configuration';
import { modelKinds } from '@mtl/configuration/internal';
import {
  checkSameArchitecture,
  type KindOfModel,
  listSavedSizes,
  savedModelKeys,
} from '@mtl/configuration/saved';
import { CheckpointError } from '@mtl/errors';
import { type GptModelConfiguration, modelParameters, numLearnedPositions } from '@mtl/models';
import { numLayerWeights } from '@mtl/models/internal';
import type { ModelOptimizer } from '@mtl/optimizer';
import { isOptimizerTensor, optimizerTensors, readTrainingState } from '@mtl/trainer';
import { findRecipe } from '../../parts/models/find-recipe.js';

/**
 * Rejects a checkpoint whose model differs from the model to train. The error names the flags that differ.
 * All other differences are detected when the tensors are loaded.
 *
 * @throws CheckpointError MTL_CHECKPOINT_MODEL; MTL_CHECKPOINT_STATE if the checkpoint contains a different
 * kind of model
 */
export function checkSameModel(checkpoint: Checkpoint, { kind, model: built }: KindOfModel): void {
  const { path, state } = checkpoint;
  const { configuration } = readTrainingState(state, path);
  checkSavedSizes(checkpoint);
  const { model: saved } = readSavedConfiguration(kind, configuration, { directory: dirname(path), path });
  checkSameArchitecture({ kind, saved, built, path });
}

/**
 * Compares the recorded sizes of the model with the number of values in the checkpoint, before the sizes
 * are used. With 2^31 layers, for example, the lists of parameter names would exhaust memory and end the
 * whole process.
 *
 * @throws CheckpointError MTL_CHECKPOINT_STATE, status 2 (wrong input), if a size is invalid, or needs more
 *   values than the checkpoint has
 */
export function checkSavedSizes({ path, state, tensors }: Checkpoint): void {
  const configuration = readRecord(readRecord(state).configuration);
  for (const kind of modelKinds) {
    const key = savedModelKeys[kind];
    if (configuration[key] === undefined) continue;
    const model = readRecord(configuration[key]);
    const fail = (problem: string, expected: string): never => {
      throw new CheckpointError('MTL_CHECKPOINT_STATE', `${path}: its manifest names ${problem}`, {
        expected,
        remedy: 'load another checkpoint, or copy this one again if it was copied',
        exitCode: 2,
      });
    };
    const { required, others } = listSavedSizes(kind);
    for (const name of [...required, ...others.filter((other) => model[other] !== undefined)]) {
      const size = model[name];
      if (!Number.isSafeInteger(size) || (size as number) < 1) {
        fail(`a model of ${name} ${JSON.stringify(size)}`, 'a whole number above 0');
      }
    }
    // a BERT's configuration has the same fields
    const sizes = model as unknown as GptModelConfiguration;
    const { numLayers, hiddenSize, ffnHiddenSize, maxPositionEmbeddings, vocabularySize, numExperts } = sizes;
    const { makeVocabularySizeDivisibleBy: multiple = 1 } = sizes;
    const padded = Math.ceil(vocabularySize / multiple) * multiple;
    // counts only the matrices of layers and the embeddings, which are most of the parameters
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

function readRecord(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null ? (value as Readonly<Record<string, unknown>>) : {};
}

/**
 * Rejects a checkpoint if a weight or a low-rank adapter of the model that it describes is missing, before
 * tensors are read or written. Such a checkpoint was saved by another program or version.
 *
 * @throws CheckpointError MTL_CHECKPOINT_MISMATCH, status 2
 */
export function checkSavedWeights(
  { path, tensors }: Pick<Checkpoint, 'path' | 'tensors'>,
  saved: Omit<SavedConfiguration, 'tokenizer'>,
): void {
  const { kind, model } = saved;
  const layers = findRecipe({ kind }).adapters.makeLayerOptions(saved, model);
  for (const { name, globalShape } of modelParameters({ ...layers, kind, model })) {
    const found = tensors.get(name);
    if (found?.globalShape.join() === globalShape.join()) continue;
    const problem =
      found === undefined ? `has no ${name}` : `has ${name} of the shape [${found.globalShape.join(', ')}]`;
    throw new CheckpointError('MTL_CHECKPOINT_MISMATCH', `${path} ${problem}`, {
      expected: `[${globalShape.join(', ')}], as the model in its manifest has it`,
      remedy: 'load another checkpoint of the run',
      exitCode: 2,
    });
  }
}

/**
 * Rejects a checkpoint whose optimizer state belongs to a different kind of optimizer than the run's
 * optimizer, before tensors are read. A checkpoint without any optimizer state is accepted.
 *
 * @throws CheckpointError MTL_CHECKPOINT_OPTIMIZER, status 2
 */
export function checkSavedOptimizer(
  checkpoint: Pick<Checkpoint, 'path' | 'tensors'>,
  optimizer: ModelOptimizer,
): void {
  const missing = optimizerTensors(optimizer).find(({ name }) => !checkpoint.tensors.has(name));
  const saved = [...checkpoint.tensors.keys()].filter(isOptimizerTensor);
  const isMuon = saved.some((name) => name.startsWith('optimizer.momentum_buffer.'));
  const isMuonHere = optimizer.state.some(({ name }) => name === 'momentum_buffer');
  // if the optimizer is the same, the reader reports missing tensors by name
  if (missing === undefined || saved.length === 0 || isMuon === isMuonHere) return;
  throw new CheckpointError(
    'MTL_CHECKPOINT_OPTIMIZER',
    `${checkpoint.path} has the optimizer state of ${isMuon ? 'Muon' : 'AdamW'}, without ${missing.name}`,
    {
      expected: 'the optimizer that the checkpoint was trained with',
      remedy: `use --optimizer ${isMuon ? 'muon' : 'adam'}, or continue without its state: --no-load-optim`,
      exitCode: 2,
    },
  );
}
