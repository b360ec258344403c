import type { NumberedBatch } from '@mtl/data';
import { balancingLossNames, expertsSpecificationOf, type GptModelConfiguration } from '@mtl/models';
import type { LossKind } from '@mtl/trainer';
import { layersWithExperts } from './layers-with-experts.js';

/** The size of a micro-batch. */
type Sized = NumberedBatch & { readonly batchSize: number; readonly sequenceLength: number };

/** What a balancing loss is a mean over in the global batch, and how many of them a micro-batch has. */
const meansOver = {
  aux_loss: { per: 'micro-batch', count: () => 1 },
  seq_aux_loss: { per: 'sequence', count: ({ batchSize }: Sized) => batchSize },
  global_aux_loss: {
    per: 'token',
    count: ({ batchSize, sequenceLength }: Sized) => batchSize * sequenceLength,
  },
} as const;

/**
 * The losses that the routers of a model make, each a mean over its layers and over what it is of; together
 * they count by their sum over layers, as in Megatron-LM, which reports such a mean as well.
 */
export function expertLosses(model: GptModelConfiguration): readonly LossKind<Sized>[] {
  if (model.numExperts === undefined) return [];
  const numLayers = layersWithExperts(model).length;
  const { balancingLosses, zLossCoefficient } = expertsSpecificationOf(model);
  const kinds = balancingLosses.map(({ type, coefficient }) => ({
    ...meansOver[type],
    name: balancingLossNames[type],
    coefficient,
  }));
  const z =
    zLossCoefficient === undefined
      ? []
      : [{ ...meansOver.global_aux_loss, name: balancingLossNames.z, coefficient: zLossCoefficient }];
  return [...kinds, ...z].map(({ name, per, count, coefficient }) => ({
    name,
    per,
    count: (batch) => numLayers * count(batch),
    weight: numLayers * coefficient,
    isAuxiliary: true,
  }));
}
