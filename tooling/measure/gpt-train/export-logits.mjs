#!/usr/bin/env node
/**
 * node tooling/measure/gpt-train/export-logits.mjs --load DIR --out FILE [--text FILE] [--max-new-tokens 64]
 *
 * Writes results of a checkpoint that can be compared with transformers, for which --save-hf has written the
 * same model: the tokens of a text (at most as long as the context), the logits at every position, and a
 * greedy continuation of the text's first half. Then run `python3 tooling/fixtures/huggingface-llama.py
 * --check-export HF_DIR FILE`.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { generateAll } from '@mtl/inference';
import { loadGptForInference } from '@mtl/runs';
import { defaultCorpusFiles } from '@mtl/runs/internal';

const { values: options } = parseArgs({
  options: {
    load: { type: 'string' },
    out: { type: 'string' },
    text: { type: 'string', default: defaultCorpusFiles().at(-1) },
    'max-new-tokens': { type: 'string', default: '64' },
  },
});

/** Returns the logits after every position, float32 [S, V], computed one token at a time with the cache. */
function computeLogits(model, tokens) {
  const cache = model.newCache({ batchSize: 1, capacity: tokens.length });
  try {
    return tokens.map((token) => [
      ...model.forward({ cache, sequences: [{ slot: 0, tokens: Int32Array.of(token) }] }),
    ]);
  } finally {
    cache.dispose();
  }
}

const loaded = await loadGptForInference({ load: options.load, device: 'cpu' });
try {
  const { model, tokenizer } = loaded;
  const text = readFileSync(options.text, 'utf8').slice(0, 8 * model.maximumContext);
  const tokens = [...tokenizer.encode(text)].slice(0, model.maximumContext);
  const prompt = tokens.slice(0, tokens.length / 2);
  const [continuation] = await generateAll({
    model,
    prompts: [prompt],
    maxNewTokens: Number(options['max-new-tokens']),
    sampling: { temperature: 0 },
  });
  const computed = {
    text,
    tokens,
    logits: computeLogits(model, tokens),
    prompt,
    generated: continuation.tokens,
  };
  writeFileSync(options.out, `${JSON.stringify(computed)}\n`);
  console.log(`${loaded.path}: ${tokens.length} tokens, written to ${options.out}`);
} finally {
  loaded.dispose();
}
