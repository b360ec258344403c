import { DataError } from '@mtl/errors';
import { checkOptions, type OptionChecks, required } from '@mtl/errors/options';
import type { CausalLanguageModel } from './causal-language-model.js';
import { checkTokens } from './generate.js';
import { modelOption, tokensOption } from './option-checks.js';

interface ScoreTokensOptions {
  readonly model: Pick<CausalLanguageModel, 'vocabularySize' | 'maximumContext' | 'tokenLosses'>;
  readonly tokens: ArrayLike<number>;
}

const checks: OptionChecks<ScoreTokensOptions> = {
  model: modelOption(['tokenLosses']),
  tokens: required(tokensOption),
};

/**
 * Computes, for each token, the natural logarithm of its probability given the tokens before it.
 *
 * `tokens`: N tokens, at least 2, and at most one more than the model's context; the first token is not
 * scored
 *
 * @returns float32 [N - 1], from the second token on
 * @throws ConfigurationError MTL_OPTION; DataError MTL_TOKENS, MTL_CONTEXT
 */
export function scoreTokens(options: ScoreTokensOptions): Float32Array {
  checkOptions(options, { of: 'scoreTokens', checks });
  const { model, tokens } = options;
  checkTokens(tokens, { vocabularySize: model.vocabularySize, what: 'the text' });
  if (tokens.length < 2) {
    throw new DataError('MTL_TOKENS', 'the text has one token', {
      expected: 'at least two: the first is given',
    });
  }
  if (tokens.length > model.maximumContext + 1) {
    throw new DataError('MTL_CONTEXT', `the text has ${tokens.length} tokens`, {
      expected: `at most ${model.maximumContext + 1}: the model's context and the token after it`,
      remedy: 'score it in windows (perplexity)',
    });
  }
  const all = Int32Array.from(tokens);
  const losses = model.tokenLosses({ tokens: all.slice(0, -1), labels: all.slice(1), batchSize: 1 });
  return losses.map((loss) => -loss);
}
