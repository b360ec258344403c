import type { PretrainingConfiguration } from '@mtl/configuration';
import { pickFields } from '@mtl/configuration/internal';
import { differingFlags, withAskedPositions } from '@mtl/configuration/saved';
import { ConfigurationError } from '@mtl/errors';
import type { TransformerConfiguration } from '@mtl/models';
import type { Tokenizer } from '@mtl/tokenizers';
import { findRecipe, findUpcycling } from './find-recipe.js';
import { checkHuggingFaceTarget } from './hugging-face-targets.js';
import type { HuggingFaceModel } from './model-recipe.js';

/**
 * Opens the directory of --load-hf. Also checks at the start of the run that the directory of --save-hf can
 * be written at its end.
 */
export async function openHuggingFace(
  configuration: PretrainingConfiguration,
): Promise<HuggingFaceModel<TransformerConfiguration> | undefined> {
  const { loadHuggingFace, saveHuggingFace } = configuration.checkpoint;
  if (saveHuggingFace !== undefined) checkHuggingFaceTarget(saveHuggingFace);
  if (loadHuggingFace === undefined) return undefined;
  return await findRecipe(configuration).openHuggingFace(configuration, loadHuggingFace);
}

/**
 * Returns the architecture to train, as described by the flags. With --load or --load-hf, these flags come
 * from the loaded model. The vocabulary size comes from the loaded model or, without a loaded model, from the
 * tokenizer.
 *
 * @throws ConfigurationError MTL_TOKENIZER_MODEL, MTL_SEQUENCE_LENGTH
 */
export function trainingModel(
  run: PretrainingConfiguration,
  options: {
    readonly tokenizer: Pick<Tokenizer, 'vocabularySize'>;
    readonly huggingFace: HuggingFaceModel<TransformerConfiguration> | undefined;
  },
): TransformerConfiguration {
  const { tokenizer, huggingFace } = options;
  const { model: flags } = run;
  const from = huggingFace?.directory ?? run.checkpoint.load;
  const known = huggingFace?.configuration.vocabularySize ?? flags.vocabularySize;
  if (known !== undefined) checkTokenizerFits({ tokenizer, model: { vocabularySize: known }, from });
  if (huggingFace === undefined) return findRecipe(run).describeModel(run, known ?? tokenizer.vocabularySize);
  const { directory } = huggingFace;
  const asked = findRecipe(run).describeModel(run, huggingFace.configuration.vocabularySize);
  const configuration = withAskedPositions(run, { model: huggingFace.configuration, asked });
  refuseOtherSizes(run, { configuration, directory });
  if (flags.sequenceLength > configuration.maxPositionEmbeddings) {
    throw new ConfigurationError(
      'MTL_SEQUENCE_LENGTH',
      `--seq-length ${flags.sequenceLength} with ${directory}, which has ${configuration.maxPositionEmbeddings} positions`,
      {
        expected: `at most ${configuration.maxPositionEmbeddings}`,
        remedy: `pass --seq-length ${configuration.maxPositionEmbeddings}`,
      },
    );
  }
  const model = findUpcycling(run)?.addExperts(asked, configuration) ?? configuration;
  return { ...model, ...pickFields(asked, ['learning']) };
}

/**
 * Checks that the sizes in the configuration match the loaded model's directory. Programs read the sizes from
 * the directory with `readLoadedFlags`. Other callers must pass the same sizes.
 */
function refuseOtherSizes(
  run: PretrainingConfiguration,
  {
    configuration,
    directory,
  }: Pick<HuggingFaceModel<TransformerConfiguration>, 'configuration' | 'directory'>,
): void {
  const upcycling = findUpcycling(run);
  if (upcycling?.isMixture(configuration) === true) {
    throw new ConfigurationError('MTL_FLAG_CONFLICT', `${directory} holds a mixture of experts already`, {
      expected: 'a dense model',
      remedy: 'leave --moe-use-upcycling out',
    });
  }
  const whole = findRecipe(run).describeModel(run, configuration.vocabularySize);
  const asked = upcycling?.makeDense(whole) ?? whole;
  const differing = differingFlags(run.kind, { one: configuration, other: asked });
  if (differing === undefined) return;
  throw new ConfigurationError('MTL_FLAG_CONFLICT', `${differing.other} with ${directory}`, {
    expected: `${differing.one}, the sizes of the model there`,
    remedy: differing.toGetOne,
  });
}

/**
 * Rejects a tokenizer with ids for which the model has no rows. Unused rows are allowed, because some models
 * have a padded vocabulary.
 *
 * @throws ConfigurationError MTL_TOKENIZER_MODEL if the tokenizer has such ids
 */
export function checkTokenizerFits(options: {
  readonly tokenizer: { readonly name?: string; readonly vocabularySize: number };
  readonly model: { readonly vocabularySize: number };
  /** The directory from which the model is loaded, for the error message. */
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
        `pass the flags of that tokenizer (--tokenizer-type, with --tokenizer-model or --vocab-file), or none of them where ${from} ` +
        'has its tokenizer; if these are the tokens of the model, give it rows for them with the ' +
        `transformers library, resize_token_embeddings(${needed}) and save_pretrained, and pass the result as --load-hf`,
    },
  );
}
