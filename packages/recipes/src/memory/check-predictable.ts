import { gptModelOf, type PretrainingConfiguration } from '@mtl/configuration';
import { ConfigurationError } from '@mtl/errors';
import { gptBlock } from '@mtl/models';

/**
 * Refuses models whose memory `predictMemory` has no formula for: those with other blocks than GPT-2's.
 *
 * @throws ConfigurationError MTL_MEMORY_BLOCKS
 */
export function checkPredictable({ kind, model }: PretrainingConfiguration): void {
  if (kind !== 'gpt') return;
  const { attention, feedForward, norm } = gptBlock(gptModelOf(model, 1));
  const { numHeads, headSize, numGroups = numHeads, bias } = attention;
  const others = [
    ...(numGroups === numHeads ? [] : ['groups of heads']),
    ...(numHeads * headSize === model.hiddenSize ? [] : ['heads of another size']),
    ...(bias ? [] : ['linear layers without biases']),
    ...(norm.kind === 'layer-norm' ? [] : [`norms of kind ${norm.kind}`]),
    ...(feedForward.kind === 'gelu' ? [] : [`feed-forward networks of kind ${feedForward.kind}`]),
    ...(model.positionEmbeddingType === 'learned_absolute' ? [] : ['no table of positions']),
  ];
  if (others.length === 0) return;
  throw new ConfigurationError(
    'MTL_MEMORY_BLOCKS',
    `the memory formulas describe GPT-2's blocks, and this model has ${others.join(', ')}`,
    {
      expected: 'a GPT with the blocks of GPT-2, or a BERT',
      remedy: 'use mtl plan or gpt-train --dry-run, which build the model and count',
    },
  );
}
