import { ConfigurationError } from '@mtl/errors';
import { architectureFlags, type KindOfModel } from './architecture-flags.js';
import { fieldsOf } from './fields-of.js';
import { unstatedValue } from './model-values.js';

/**
 * Refuses a model whose architecture a Hugging Face directory cannot record: before a run that writes one.
 *
 * @throws ConfigurationError MTL_HUGGING_FACE_LAYER_NORM for a BERT with layer norm before each sublayer,
 *   MTL_HUGGING_FACE_ARCHITECTURE for any other property
 */
export function checkHuggingFaceArchitecture({ kind, model }: KindOfModel): void {
  const flags = architectureFlags({ kind, model });
  for (const [name, field] of fieldsOf(kind)) {
    const { decides, huggingFace } = field;
    if (decides !== 'weights' || huggingFace === 'recorded') continue;
    const only = huggingFace?.only ?? unstatedValue(field, { ...model, kind });
    if (flags[name] === only) continue;
    throw new ConfigurationError(
      huggingFace?.code ?? 'MTL_HUGGING_FACE_ARCHITECTURE',
      `a model of --${name} ${flags[name]} cannot be written for the transformers library, whose ${kind.toUpperCase()} does not have it`,
      {
        expected: `--${name} ${only}`,
        remedy: 'leave --save-hf out, or train a model with that value',
        details: { flag: name },
      },
    );
  }
}
