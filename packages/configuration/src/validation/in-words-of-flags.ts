import { ConfigurationError, rewordError } from '@mtl/errors';

/** Options of the classes of @mtl/optimizer, and the flags that set them. */
const flagOfOption: Readonly<Record<string, string>> = {
  maxLearningRate: '--lr',
  minLearningRate: '--min-lr',
  initialLearningRate: '--lr-warmup-init',
  decaySteps: '--lr-decay-iters (or --lr-decay-samples)',
  warmupSteps: '--lr-warmup-iters, --lr-warmup-samples or --lr-warmup-fraction',
  wsdDecaySteps: '--lr-wsd-decay-iters (or --lr-wsd-decay-samples)',
  decayStyle: '--lr-decay-style',
  wsdDecayStyle: '--lr-wsd-decay-style',
  globalBatchSize: '--global-batch-size',
  microBatchSize: '--micro-batch-size',
  'rampup.start': 'the start of --rampup-batch-size',
  'rampup.increment': 'the increment of --rampup-batch-size',
  'rampup.samples': 'the samples of --rampup-batch-size',
  rampup: '--rampup-batch-size',
  scale: '--loss-scale',
  initialScale: '--initial-loss-scale',
  minScale: '--min-loss-scale',
  growthInterval: '--loss-scale-window',
  hysteresis: '--hysteresis',
};

/** The longest names first: `rampup.start` before `rampup`. */
const names = Object.keys(flagOfOption).sort((a, b) => b.length - a.length);
const option = new RegExp(`\\b(?:${names.map((name) => name.replace('.', '\\.')).join('|')})\\b`, 'g');

const inFlags = (text: string): string => text.replace(option, (name) => flagOfOption[name]!);

/**
 * Runs `body` for those who wrote flags: errors that name options of @mtl/optimizer name their flags instead.
 *
 * @throws ConfigurationError that of `body`, with its code
 */
export function inWordsOfFlags<Result>(body: () => Result): Result {
  try {
    return body();
  } catch (error) {
    throw error instanceof ConfigurationError ? rewordError(error, inFlags) : error;
  }
}
