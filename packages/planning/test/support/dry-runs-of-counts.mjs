// A process that makes a dry run for every count of every flag, and sends the result of each. If it hangs or
// takes all memory, its parent ends it.
import { configFileJsonSchema, parseFlags } from '@mtl/configuration';
import { formatError, MtlError } from '@mtl/errors';
import { planning } from '@mtl/planning';

const values = [1e6, 3e7, 1e12, Number.MAX_SAFE_INTEGER];
const small =
  '--num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 32 --max-position-embeddings 32 ' +
  '--micro-batch-size 1 --global-batch-size 2 --lr 1e-3 --tokenizer-type NullTokenizer --vocab-size 63';

/** Words that a flag needs to have an effect; `VALUE` is the value of the case. */
const needed = {
  'num-query-groups': '--group-query-attention',
  'yarn-original-max-position-embeddings': '--position-embedding-type yarn',
  'rope-scaling-original-max-position-embeddings': '--position-embedding-type rope --use-rope-scaling',
  'seq-length': '--max-position-embeddings VALUE',
  'moe-router-num-groups': '--moe-router-group-topk 1',
  'moe-router-topk': '--num-experts 4',
  'expert-model-parallel-size': '--num-experts VALUE --global-batch-size VALUE',
  'global-batch-size': '--pipeline-model-parallel-size 2',
  'micro-batch-size': '--global-batch-size VALUE',
  'num-processes': '--global-batch-size VALUE',
  'tensor-model-parallel-size': '--hidden-size VALUE --num-attention-heads VALUE --ffn-hidden-size VALUE',
  'pipeline-model-parallel-size': '--num-layers VALUE',
  'recompute-num-layers': '--recompute-granularity full --recompute-method block',
  'muon-num-ns-steps': '--optimizer muon',
  'lr-decay-samples': '--train-samples VALUE',
  'lr-warmup-samples': '--train-samples VALUE',
  'lr-wsd-decay-iters': '--lr-decay-style WSD',
  'lr-wsd-decay-samples': '--lr-decay-style WSD --train-samples VALUE',
  'rampup-batch-size': '--train-samples VALUE --global-batch-size VALUE',
  'train-samples': '',
};

function makeArguments(name, value, numValues) {
  const extra = (needed[name] ?? '').replaceAll('VALUE', value);
  const experts = /expert|moe/.test(name) ? '--num-experts 4 --disable-bias-linear' : '';
  const length = /samples|rampup/.test(name) ? '' : '--train-iters 4';
  const given = Array(numValues)
    .fill(numValues > 1 && name === 'rampup-batch-size' ? 1 : value)
    .join(' ');
  const own = name === 'rampup-batch-size' ? `1 1 ${value}` : given;
  const words = `${small} ${length} ${experts} ${extra} --${name} ${own}`.split(/\s+/);
  return [...lastOfEach(words), '--dry-run'];
}

/** Leaves out flags that are given again. */
function lastOfEach(words) {
  const given = new Map();
  for (const word of words) {
    if (word.startsWith('--')) {
      given.delete(word);
      given.set(word, []);
    } else [...given.values()].at(-1).push(word);
  }
  return [...given].flat(2);
}

async function findOutcome(argv) {
  try {
    const flags = parseFlags(argv, { model: 'gpt' });
    const numProcesses = flags.values['num-processes'];
    await planning.printDryRun({ flags, numProcesses, variables: {}, print: () => {} });
    return 'works';
  } catch (error) {
    return MtlError.isInstance(error) ? formatError(error) : `without a code: ${error.stack}`;
  }
}

const flags = Object.entries(configFileJsonSchema().properties).flatMap(
  ([name, { type, items, minItems = 1 }]) =>
    type === 'integer' ? [[name, 1]] : items?.type === 'integer' ? [[name, minItems]] : [],
);
const only = process.argv.slice(2);
for (const [name, numValues] of flags) {
  if (only.length > 0 && !only.includes(name)) continue;
  for (const value of values) {
    process.send({ name, value });
    const started = performance.now();
    const outcome = await findOutcome(makeArguments(name, value, numValues));
    const seconds = (performance.now() - started) / 1000;
    process.send({ name, value, outcome, seconds, peakBytes: 1024 * process.resourceUsage().maxRSS });
  }
}
process.disconnect();
