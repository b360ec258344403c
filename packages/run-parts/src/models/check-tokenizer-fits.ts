import { ConfigurationError } from '@mtl/errors';

/**
 * Refuses a tokenizer with ids that the model has no rows for; fewer are right, as some models are padded.
 *
 * @throws ConfigurationError MTL_TOKENIZER_MODEL
 */
export function checkTokenizerFits(options: {
  readonly tokenizer: { readonly name?: string; readonly vocabularySize: number };
  readonly model: { readonly vocabularySize: number };
  /** Where the model is from. */
  readonly from: string | undefined;
}): void {
  const { tokenizer, model, from } = options;
  const needed = tokenizer.vocabularySize;
  if (needed <= model.vocabularySize) return;
  const name = tokenizer.name ?? 'tokenizer';
  throw new ConfigurationError(
    'MTL_TOKENIZER_MODEL',
    `the ${name} has ${needed} tokens, the model of ${from} knows only ${model.vocabularySize}`,
    {
      expected: 'the tokenizer that the model was trained with',
      remedy:
        'leave --tokenizer-type and --tokenizer-model out; if these are the tokens of the model, give it rows for them with the ' +
        `transformers library, resize_token_embeddings(${needed}) and save_pretrained, and pass the result as --load-hf`,
    },
  );
}
