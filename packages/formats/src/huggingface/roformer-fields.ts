import type { ConfigField } from './config-fields.js';

/**
 * The positions of a RoFormer (Su et al. 2021): pairs of neighbouring features are rotated, with the first
 * frequencies that there were. It states no property of ours that a BERT has otherwise.
 */
export const roformerFields: readonly ConfigField[] = [
  {
    key: 'positionEmbeddingType',
    names: ['rotary_value'],
    read: (fields) => {
      if (!fields.optional('rotary_value', 'true or false', false)) return 'rope';
      throw fields.unsupported('rotary_value', { needs: 'rotated values', expected: 'false' });
    },
    write: () => false,
  },
  {
    key: 'rotaryInterleaved',
    names: ['embedding_size'],
    read: (fields, { hiddenSize }) => {
      const size = fields.optional('embedding_size', 'a positive integer', hiddenSize as number);
      if (size === hiddenSize) return true;
      throw fields.unsupported('embedding_size', {
        needs: 'embeddings of another width',
        expected: `the hidden size, ${hiddenSize as number}`,
      });
    },
    write: (_, { hiddenSize }) => hiddenSize,
  },
];
