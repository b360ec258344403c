const oneThread = { intraOpNumThreads: 1 };

/**
 * Answers questions about models in ONNX directories with transformers.js, in Node and in browsers.
 *
 * @param {any} library the module of transformers.js
 * @param {readonly (import('./ask-transformers-js.mjs').TransformersJsQuestion & { readonly name: string,
 *   readonly parent: string })[]} questions each with the directory's name, and with the path or URL of its
 *   parent folder
 * @returns {Promise<string>} the answers in JSON
 */
export async function answerQuestions(library, questions) {
  const answers = [];
  for (const { parent, name, dtype, sequences, count, pipeline, pairs } of questions) {
    library.env.localModelPath = parent;
    const options = { dtype, local_files_only: true, session_options: oneThread };
    answers.push({
      logits: [],
      greedy: [],
      results: [],
      ...(sequences === undefined ? {} : await askModel(library, { name, options, sequences, count })),
      ...(pipeline === undefined ? {} : await askPipeline(library, { name, options, ...pipeline })),
      ...(pairs === undefined ? {} : await classifyPairs(library, { name, options, pairs })),
    });
  }
  return JSON.stringify(answers, (_, value) => (typeof value === 'bigint' ? Number(value) : value));
}

/** Returns a batch of the token sequences, padded on the left, as a pipeline pads texts. */
function pad({ Tensor }, sequences) {
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

async function askModel(library, { name, options, sequences, count }) {
  const model = await library.AutoModelForCausalLM.from_pretrained(name, options);
  const { inputs, length } = pad(library, sequences);
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

async function askPipeline({ pipeline, Tensor }, { name, options, task, calls }) {
  const run = await pipeline(task, name, options);
  const results = [];
  for (const call of calls) {
    const result = await run(...call);
    results.push(result instanceof Tensor ? result.tolist() : result);
  }
  await run.dispose();
  return { results };
}

/** Computes the logits of each text pair without a pipeline, because pipelines do not accept pairs. */
async function classifyPairs(
  { AutoModelForSequenceClassification, AutoTokenizer },
  { name, options, pairs },
) {
  const tokenizer = await AutoTokenizer.from_pretrained(name, options);
  const model = await AutoModelForSequenceClassification.from_pretrained(name, options);
  const [first, second] = [0, 1].map((index) => pairs.map((pair) => pair[index]));
  const inputs = tokenizer(first, { text_pair: second, padding: true, truncation: true });
  const { logits } = await model(inputs);
  await model.dispose();
  return { results: logits.tolist() };
}
