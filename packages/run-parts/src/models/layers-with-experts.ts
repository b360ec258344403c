import { type ExpertVariants, hasExperts, type TransformerConfiguration } from '@mtl/models';

/** The global indices of the layers with experts; none of a model that has none. */
export const layersWithExperts = (model: TransformerConfiguration & ExpertVariants): readonly number[] =>
  Array.from({ length: model.numLayers }, (_, layer) => layer).filter((layer) => hasExperts(model, layer));
