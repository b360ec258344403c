import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { parameterTensors, readHuggingFaceGpt, writeHuggingFaceGpt } from '../src/index.js';
import { type FixtureName, fixtureDirectory, loadModel } from './huggingface-fixture.js';

type Values = Readonly<Record<string, unknown>>;

/** The results of tooling/fixtures/rope-scaling.py. */
const { models } = JSON.parse(
  readFileSync(new URL('../fixtures/rope-scaling.json', import.meta.url), 'utf8'),
) as {
  readonly models: readonly {
    readonly model: FixtureName;
    readonly changes: Values & { readonly rope_parameters: Values };
    readonly tokens: readonly number[];
    readonly logits: Readonly<Record<string, readonly number[]>>;
    readonly prompt: readonly number[];
    readonly generated: readonly number[];
  }[];
};

const scratch = mkdtempSync(join(tmpdir(), 'mtl-rope-'));
afterAll(() => rmSync(scratch, { recursive: true }));

const readConfig = (directory: string): Values =>
  JSON.parse(readFileSync(join(directory, 'config.json'), 'utf8')) as Values;

const argmax = (values: Float32Array): number => values.indexOf(values.reduce((a, b) => Math.max(a, b)));

describe.each(models.map((known, index) => ({ ...known, index, parameters: known.changes.rope_parameters })))(
  '$model with $parameters',
  ({ model: name, changes, tokens, logits, prompt, generated, index }) => {
    /** The directory of a copy of the fixture with other positions. */
    const directory = join(scratch, `${index}`);
    cpSync(fixtureDirectory(name), directory, { recursive: true });
    writeFileSync(
      join(directory, 'config.json'),
      JSON.stringify({ ...readConfig(fixtureDirectory(name)), ...changes }),
    );

    it("has transformers' logits beyond the positions of pretraining", async () => {
      const { model, dispose } = await loadModel(directory);
      for (const [row, expected] of Object.entries(logits)) {
        const cache = model.newCache({ batchSize: 1, capacity: tokens.length });
        const sequences = [{ slot: 0, tokens: Int32Array.from(tokens.slice(0, Number(row) + 1)) }];
        model.forward({ cache, sequences }).forEach((value, id) => {
          // float32 rounding of logits around 10; the fixture's are float64
          expect(Math.abs(value - expected[id]!), `${row}: ${id}`).toBeLessThan(2e-5);
        });
        cache.dispose();
      }
      dispose();
    });

    it("generates transformers' tokens with a cache, up to the last position", async () => {
      const { model, dispose } = await loadModel(directory);
      const cache = model.newCache({ batchSize: 1, capacity: model.maximumContext });
      const found: number[] = [];
      let next = Int32Array.from(prompt);
      while (prompt.length + found.length < model.maximumContext) {
        found.push(argmax(model.forward({ cache, sequences: [{ slot: 0, tokens: next }] })));
        next = Int32Array.of(found.at(-1)!);
      }
      expect(found).toEqual(generated);
      cache.dispose();
      dispose();
    });

    it('is written as it is', async () => {
      const { source, stage, dispose } = await loadModel(directory);
      const saved = join(scratch, `${index}-saved`);
      await writeHuggingFaceGpt({
        directory: saved,
        model: source.configuration,
        tensors: parameterTensors(stage.parameters),
        origin: source.origin,
      });
      dispose();
      const again = await readHuggingFaceGpt({ directory: saved, makeVocabularySizeDivisibleBy: 16 });
      expect(again.configuration).toEqual(source.configuration);
      const { factor, ...stated } = changes.rope_parameters;
      expect(readConfig(saved).rope_parameters).toEqual({ factor: factor ?? 40 / 12, ...stated });
    });
  },
);
