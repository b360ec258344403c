import { dirname } from 'node:path';
import type { Checkpoint } from '@mtl/checkpoint';
import { CheckpointError } from '@mtl/errors';
import type { TransformerConfiguration } from '@mtl/models';
import { readTrainingState } from '@mtl/trainer';
import type { ModelKind } from '../model-kind.js';
import { checkSavedSizes } from './check-saved-sizes.js';
import { readSavedBertConfiguration, readSavedConfiguration } from './saved-configuration.js';

/** What decides which weights a model has and what it computes with them, and the flags for it. */
const flagOf = {
  numLayers: '--num-layers',
  hiddenSize: '--hidden-size',
  ffnHiddenSize: '--ffn-hidden-size',
  numAttentionHeads: '--num-attention-heads',
  maxPositionEmbeddings: '--max-position-embeddings',
  layerNormEpsilon: '--norm-epsilon',
  geluKind: '--gelu',
  layerNormPlacement: '--layer-norm-placement',
} as const;

/**
 * Refuses a checkpoint of another model than the one to be trained, in the words of its flags. What else can
 * differ shows when its tensors are loaded.
 *
 * @throws CheckpointError MTL_CHECKPOINT_MODEL; MTL_CHECKPOINT_STATE when it holds a model of another kind
 */
export function checkSameModel(
  checkpoint: Checkpoint,
  { kind, model }: { readonly kind: ModelKind; readonly model: TransformerConfiguration },
): void {
  const { path, state } = checkpoint;
  const { configuration } = readTrainingState(state, path);
  checkSavedSizes(checkpoint);
  const place = { directory: dirname(path), path };
  const saved =
    kind === 'gpt'
      ? readSavedConfiguration(configuration, place).gptModel
      : readSavedBertConfiguration(configuration, place).bertModel;
  const entryOf = (of: object, key: string): unknown => (of as Readonly<Record<string, unknown>>)[key];
  const differing = Object.entries(flagOf).flatMap(([key, flag]) => {
    const [there, here] = [entryOf(saved, key), entryOf(model, key)];
    return there === here ? [] : [{ there: `${flag} ${there}`, here: `${flag} ${here}` }];
  });
  if (differing.length === 0) return;
  const listed = (which: 'there' | 'here') => differing.map((one) => one[which]).join(' ');
  throw new CheckpointError(
    'MTL_CHECKPOINT_MODEL',
    `${path} holds a model of ${listed('there')}, and this one has ${listed('here')}`,
    {
      expected: 'the model that was saved',
      remedy: `pass ${listed('there')}, or train the other model without --load`,
      exitCode: 2,
    },
  );
}
