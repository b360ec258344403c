import { choice, patternedText, positiveNumber } from '../flags/flag-kinds.js';
import { onlyWith, optional } from './architecture-field.js';
import { layerList, layerListConversion } from './layer-lists.js';

/**
 * Parses an attention window. Also accepts the notations of Megatron-LM's scripts: `(128,0)`, and -1 for a
 * side without a limit.
 */
function windowText(text: unknown): unknown {
  if (typeof text !== 'string') return text;
  const window = text.replace(/^\((.*)\)$/, '$1').replaceAll(' ', '');
  return window === '-1,0' ? undefined : window;
}

const ofWindows = onlyWith(({ windowSize }) => windowSize !== undefined);
const ofRotation = onlyWith(({ positionEmbeddingType: type }) => type === 'rope' || type === 'yarn');

/** The architecture fields that determine which positions a query attends to, with Megatron-LM's names. */
export const attentionFields = {
  'window-size': optional(
    patternedText('Lets a query see its own position and L before it, instead of all before it; -1: all.', {
      pattern: /^\d+,0$/,
      placeholder: 'L,0',
      canonical: windowText,
    }),
  ),
  'window-attn-skip-freq': ofWindows(
    layerList(
      'Layers without the window: every Nth, or a list with 1 for each that has the window and 0 for each that sees all positions.',
      { defaultText: 'all layers have the window' },
    ),
    { conversion: layerListConversion },
  ),
  'softmax-type': optional(
    choice(
      ['vanilla', 'off-by-one', 'learnable'],
      'Sinks of attention, which take a share of the weights: none, one of score 0 for each head, or one whose score is trained.',
      { defaultText: 'vanilla', canonical: (type: unknown) => (type === 'vanilla' ? undefined : type) },
    ),
  ),
  'attn-logit-softcapping': optional(
    positiveNumber(
      'A soft cap of the scores of attention, as Gemma 2 has: scores s become CAP tanh(s / CAP) before the softmax. On CPUs.',
      { placeholder: 'CAP', defaultText: 'none' },
    ),
  ),
  'final-logit-softcapping': optional(
    positiveNumber(
      'A soft cap of the logits of the output layer, as Gemma 2 has: logits x become CAP tanh(x / CAP). On CPUs.',
      { placeholder: 'CAP', defaultText: 'none' },
    ),
  ),
};

/** The architecture field for the layers without rotary position embeddings. */
export const rotationFields = {
  'no-rope-freq': ofRotation(
    layerList(
      'Layers whose queries and keys are not rotated: every Nth, or a list with 1 for each layer without rotation and 0 for each rotated layer.',
      { defaultText: 'none' },
    ),
    { conversion: layerListConversion },
  ),
};
