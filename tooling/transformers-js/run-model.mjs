#!/usr/bin/env node
/**
 * node run-model.mjs FOLDER: answers questions about ONNX directories with transformers.js, which is
 * installed in FOLDER. The questions are a list in JSON on standard input, the answers another one on
 * standard output.
 */
import { createRequire } from 'node:module';
import { basename, dirname, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { pathToFileURL } from 'node:url';

const [folder] = process.argv.slice(2);
const questions = JSON.parse(await text(process.stdin));
const require = createRequire(join(folder, 'package.json'));
const path = require.resolve('@huggingface/transformers').replace(/cjs$/, 'mjs');
const { AutoModelForCausalLM, env, pipeline, Tensor } = await import(pathToFileURL(path).href);
env.allowRemoteModels = false;
env.useFSCache = false;

const numThreads = { intraOpNumThreads: 1 };

/** Returns a batch of sequences of tokens, padded on the left as a pipeline pads texts. */
function pad(sequences) {
  const length = Math.max(...sequences.map((tokens) => tokens.length));
  const padded = (tokens, filler) => [...new Array(length - tokens.length).fill(filler), ...tokens];
  const tensor = (rows) =>
    new Tensor('int64', BigInt64Array.from(rows.flat(), BigInt), [sequences.length, length]);
  return {
    length,
    inputs: {
      input_ids: tensor(sequences.map((tokens) => padded(tokens, 0))),
      attention_mask: tensor(
        sequences.map((tokens) =>
          padded(
            tokens.map(() => 1),
            0,
          ),
        ),
      ),
    },
  };
}

async function askModel({ name, options, sequences, count }) {
  const model = await AutoModelForCausalLM.from_pretrained(name, options);
  const { inputs, length } = pad(sequences);
  const answer = { logits: [], greedy: [] };
  if (count === undefined) {
    const rows = (await model(inputs)).logits.tolist();
    answer.logits = sequences.map((tokens, index) => rows[index].slice(length - tokens.length));
  } else {
    const settings = { max_new_tokens: count, do_sample: false, eos_token_id: null };
    const outputs = (await model.generate({ ...inputs, ...settings })).tolist();
    answer.greedy = outputs.map((tokens) => tokens.slice(length).map(Number));
  }
  await model.dispose();
  return answer;
}

async function askPipeline({ name, options, task, calls }) {
  const run = await pipeline(task, name, options);
  const results = [];
  for (const call of calls) {
    const result = await run(...call);
    results.push(result instanceof Tensor ? result.tolist() : result);
  }
  await run.dispose();
  return { results };
}

const answers = [];
for (const { directory, dtype, sequences, count, pipeline: asked } of questions) {
  env.localModelPath = `${dirname(directory)}/`;
  const name = basename(directory);
  const options = { dtype, local_files_only: true, session_options: numThreads };
  answers.push({
    logits: [],
    greedy: [],
    results: [],
    ...(sequences === undefined ? {} : await askModel({ name, options, sequences, count })),
    ...(asked === undefined ? {} : await askPipeline({ name, options, ...asked })),
  });
}
process.stdout.write(
  JSON.stringify(answers, (_, value) => (typeof value === 'bigint' ? Number(value) : value)),
  () => process.exit(0),
);
