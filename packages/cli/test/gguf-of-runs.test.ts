import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type LoadedGpt, loadGptForInference } from '@mtl/runs';
import { askLlamaCpp, hasLlamaCpp, readWithHuggingFace } from '@mtl/tooling/ask-llama-cpp';
import { reportEngine } from '@mtl/tooling/report-engine';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { runMtlHere } from './support/run-mtl-here.js';
import { temporaryDirectory } from './support/temporary-directory.js';

const directory = temporaryDirectory();
afterAll(() => directory.dispose());

const inDirectory = (name: string): string => join(directory.path, name);

async function mtl(...argv: string[]): Promise<void> {
  const { status, stderr } = await runMtlHere(...argv);
  expect({ status, error: /^error.*/m.exec(stderr)?.[0] }).toEqual({ status: 0, error: undefined });
}

/** Returns the log-probabilities of all tokens after each position. */
function logProbabilities({ model }: LoadedGpt, tokens: readonly number[]): number[][] {
  const cache = model.newCache({ batchSize: 1, capacity: tokens.length });
  const rows = tokens.map((token) => {
    const logits = model.forward({ cache, sequences: [{ slot: 0, tokens: Int32Array.of(token) }] });
    const most = Math.max(...logits);
    const sum = logits.reduce((total, logit) => total + Math.exp(logit - most), 0);
    return Array.from(logits, (logit) => logit - most - Math.log(sum));
  });
  cache.dispose();
  return rows;
}

const template =
  '{% for m in messages %}{{ m.role + "\\n" + m.content + eos_token }}{% endfor %}' +
  '{% if add_generation_prompt %}{{ "assistant\\n" }}{% endif %}';

describe.skipIf(!hasLlamaCpp)('llama.cpp (npm run dev -- llama-cpp installs it)', () => {
  beforeAll(async () => {
    const few = ['--eval-iters', '1', '--log-interval', '4', '--verbose'];
    await mtl('train', 'gpt', '--train-iters', '8', ...few, '--save', inDirectory('pretrained'));
    const answer = { role: 'assistant', content: 'The people of the United States.' };
    const chats = Array.from({ length: 8 }, (_, index) => ({
      messages: [{ role: 'user', content: `Who governs, ${index}?` }, answer],
    }));
    writeFileSync(inDirectory('chats.jsonl'), chats.map((chat) => `${JSON.stringify(chat)}\n`).join(''));
    writeFileSync(inDirectory('chat.jinja'), template);
    await mtl(
      ...['sft', '--model', inDirectory('pretrained'), '--train-data', inDirectory('chats.jsonl')],
      ...['--chat-template', inDirectory('chat.jinja'), '--epochs', '1', '--save', inDirectory('tuned')],
    );
  }, 600_000);

  it.each(['pretrained', 'tuned'])(
    'computes the %s model of the default run',
    { timeout: 300_000 },
    async (name) => {
      const [load, path] = [inDirectory(name), inDirectory(`${name}.gguf`)];
      await mtl('convert', '--load', load, '--to', 'gguf', path);
      using loaded = await loadGptForInference({ load, device: 'cpu', onNotice: () => {} });
      const text = "The people have chosen, and in 1850 we'll not forget it.\n\nI thank you.";
      const tokens = [...loaded.tokenizer!.encode(text)];
      const [answer] = askLlamaCpp([{ path, texts: [text], sequences: [{ tokens }] }]);
      expect(answer!.texts[0]).toEqual(tokens);
      const expected = logProbabilities(loaded, tokens);
      const differences = expected.map((row, position) =>
        row.reduce(
          (far, value, id) => Math.max(far, Math.abs(value - answer!.probabilities[0]![position]![id]!)),
          0,
        ),
      );
      // a SiLU model; measured 4e-6
      expect(Math.max(...differences)).toBeLessThan(2e-3);
      const { metadata } = await readWithHuggingFace(path);
      expect(metadata['tokenizer.chat_template']).toBe(name === 'tuned' ? template : undefined);
      reportEngine('llama.cpp');
    },
  );
});
