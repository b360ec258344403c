import {
  functionOption,
  listOption,
  type OptionCheck,
  objectOption,
  optionThat,
  required,
  wholeNumberOption,
} from '@mtl/errors/options';

/** Accepts a list of tokens. Their ids are checked later, against the model's vocabulary. */
export const tokensOption: OptionCheck<false> = optionThat(
  'token ids: an array, or a typed array',
  (value) => {
    if (typeof value !== 'object' || value === null) return false;
    const { length } = value as { readonly length?: unknown };
    return Number.isSafeInteger(length) && (length as number) >= 0;
  },
);

/** Makes the check for a model that must have the given methods. */
export function modelOption(methods: readonly string[]): OptionCheck<true> {
  return required(
    objectOption(`a causal language model: an object with ${methods.join(', ')}`, {
      vocabularySize: required(wholeNumberOption(1)),
      maximumContext: required(wholeNumberOption(1)),
      ...Object.fromEntries(methods.map((name) => [name, required(functionOption)])),
    }),
  );
}

/** Accepts a list of texts with possible continuations. */
export const continuationsOption: OptionCheck<false> = listOption(
  objectOption('an object with the tokens of a context and of a target', {
    context: required(tokensOption),
    target: required(tokensOption),
  }),
  { what: 'an array of contexts with their targets' },
);

/** Checks an AbortSignal. */
export const signalOption: OptionCheck<false> = objectOption('an AbortSignal', {
  throwIfAborted: required(functionOption),
});
