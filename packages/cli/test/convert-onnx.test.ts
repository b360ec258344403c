import { cpSync, existsSync, readdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { askTransformersJs, hasTransformersJs } from '@mtl/tooling/ask-transformers-js';
import { hasChromium } from '@mtl/tooling/chromium';
import { reportEngine } from '@mtl/tooling/report-engine';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { copyBert } from './support/copy-bert.js';
import { ModelPage } from './support/model-page.js';
import { runMtlHere } from './support/run-mtl-here.js';
import { runMtlIn } from './support/run-mtl-in.js';
import { temporaryDirectory } from './support/temporary-directory.js';
import { trainTinyGpt } from './support/train-tiny-gpt.js';
import { writeChatModel, writePage } from './support/write-page.js';

const directory = temporaryDirectory();
afterAll(() => directory.dispose());

const inDirectory = (name: string): string => join(directory.path, name);

async function mtl(...argv: string[]): Promise<string> {
  const { status, stdout, stderr } = await runMtlHere(...argv);
  expect({ status, error: /^error.*/m.exec(stderr)?.[0] }).toEqual({ status: 0, error: undefined });
  return stdout;
}

async function refused(...argv: string[]): Promise<string> {
  const { status, stdout, stderr } = await runMtlHere(...argv);
  expect({ status, stdout }).toEqual({ status: 2, stdout: '' });
  return stderr;
}

let run = '';
beforeAll(async () => {
  run = (await trainTinyGpt(directory.path)).save;
}, 300_000);

/** Returns the most likely continuation of a text, as `mtl generate` prints it, with the text. */
const generateGreedily = async (prompt: string, count: number): Promise<string> => {
  const words = ['--prompt', prompt, '--max-new-tokens', `${count}`, '--temperature', '0', '--json'];
  const { text } = JSON.parse(await mtl('generate', run, ...words)) as { text: string };
  return prompt + text;
};

describe('mtl convert --to onnx', () => {
  it('writes a file for each dtype, with the tokenizer', async () => {
    const target = inDirectory('several');
    const printed = await mtl('convert', '--load', run, '--to', 'onnx', target, '--dtype', 'q8,fp32');
    expect(printed).toBe(`${join(run, 'iter_0000040')} -> ${target} (q8, fp32)\n`);
    expect(readdirSync(join(target, 'onnx')).sort()).toEqual(['model.onnx', 'model_quantized.onnx']);
    const config = JSON.parse(readFileSync(join(target, 'config.json'), 'utf8'));
    expect(config).toMatchObject({ model_type: 'gpt2', 'transformers.js_config': { dtype: 'q8' } });
    const generation = JSON.parse(readFileSync(join(target, 'generation_config.json'), 'utf8'));
    expect(generation.eos_token_id).toBe(config.eos_token_id);
    for (const name of ['tokenizer.json', 'tokenizer_config.json']) {
      expect(existsSync(join(target, name))).toBe(true);
    }
  });

  it('refuses dtypes and models that it cannot write', async () => {
    const target = inDirectory('refused');
    expect(await refused('convert', '--load', run, '--to', 'onnx', target, '--dtype', 'q8,q8')).toContain(
      'error[MTL_FLAG_CONFLICT]: mtl convert: --dtype q8,q8 is not written as onnx',
    );
    expect(await refused('convert', '--load', run, '--to', 'gguf', target, '--dtype', 'fp32')).toContain(
      '--dtype fp32 is not written as gguf',
    );
    const mixture = fileURLToPath(new URL('../../formats/fixtures/huggingface-mixtral', import.meta.url));
    const copy = inDirectory('mixtral');
    cpSync(mixture, copy, { recursive: true });
    cpSync(inDirectory('cats.json'), join(copy, 'tokenizer.json'));
    const text = await refused('convert', '--load-hf', copy, '--to', 'onnx', target, '--dtype', 'q4');
    expect(text).toContain('error[MTL_ONNX_ARCHITECTURE]: ONNX: q4 of experts whose rows have 14 weights');
    expect(text).toMatch(/remedy: write the model with --dtype q8/);
    expect(existsSync(target)).toBe(false);
  });

  it.skipIf(!hasTransformersJs)(
    'gives pipeline(text-generation) the texts of mtl generate (npm run dev -- transformers-js installs it)',
    async () => {
      const target = inDirectory('greedy');
      await mtl('convert', '--load', run, '--to', 'onnx', target);
      const prompts = ['the cat number', 'sat'];
      const calls = [[prompts, { max_new_tokens: 12, do_sample: false }]];
      const [answer] = askTransformersJs([
        { directory: target, pipeline: { task: 'text-generation', calls } },
      ]);
      const texts = [];
      for (const prompt of prompts) texts.push(await generateGreedily(prompt, 12));
      expect(answer!.results[0].map(([one]: [{ generated_text: string }]) => one.generated_text)).toEqual(
        texts,
      );
      reportEngine('transformers.js');
    },
    120_000,
  );
});

describe('mtl convert --to onnx of a BERT of the transformers library', () => {
  it.each([
    ['masked', 'BertForMaskedLM', 'logits'],
    ['classification', 'BertForSequenceClassification', 'logits'],
    ['span', 'BertForQuestionAnswering', 'end_logits'],
  ])('takes the head that its class has (%s)', async (kind, className, output) => {
    const target = inDirectory(`onnx-${kind}`);
    await mtl('convert', '--load-hf', copyBert(directory.path, kind), '--to', 'onnx', target);
    const config = JSON.parse(readFileSync(join(target, 'config.json'), 'utf8'));
    expect(config.architectures).toEqual([className]);
    // the name of an output is in the file as it is
    expect(readFileSync(join(target, 'onnx/model.onnx')).includes(output)).toBe(true);
    const settings = JSON.parse(readFileSync(join(target, 'tokenizer_config.json'), 'utf8'));
    expect(settings).toMatchObject({ tokenizer_class: 'BertTokenizer', mask_token: '[MASK]' });
  });

  it('refuses multiple choice', async () => {
    const choice = copyBert(directory.path, 'choice');
    expect(await refused('convert', '--load-hf', choice, '--to', 'onnx', inDirectory('none'))).toContain(
      'error[MTL_ONNX_ARCHITECTURE]: ONNX: transformers.js has no pipeline for multiple choice',
    );
    expect(existsSync(inDirectory('none'))).toBe(false);
  });
});

describe('mtl convert --to page', () => {
  it('needs the library, and tells how to install it', async () => {
    const text = await runMtlIn(['convert', '--load', run, '--to', 'page', inDirectory('none')], {
      cwd: directory.path,
    });
    expect(text.stderr).toContain('error[MTL_PAGE_RUNTIME]: @huggingface/transformers is not installed');
    expect(text.stderr).toContain('remedy: run npm install @huggingface/transformers@4');
    expect(text.status).toBe(2);
  });
});

const skipped = '(it needs chromium, and npm run dev -- transformers-js)';

const isReady = /^Ready\.$/;
const isAnswered = /^\d+ tokens?\b/;

describe.skipIf(!hasTransformersJs || !hasChromium)(`a page in Chromium, without network ${skipped}`, () => {
  const chromium = new ModelPage();
  let page: Page;

  beforeAll(async () => {
    page = await chromium.open(await writePage(inDirectory('page'), '--load', run));
    await page.getByText(isReady).waitFor();
    reportEngine('transformers.js');
  }, 300_000);

  afterAll(async () => await chromium.close());

  const ask = async (text: string, numTokens: number): Promise<void> => {
    await page.getByLabel('Text to continue').fill(text);
    await page.getByLabel('Most tokens').fill(`${numTokens}`);
    await page.getByRole('button', { name: 'Generate' }).click();
  };
  const answer = async (): Promise<string | null> => await page.locator('#output p').last().textContent();

  it('tells how many megabytes it loaded', async () => {
    expect(await page.locator('#size').textContent()).toMatch(
      /^0\.\d MB of model \(fp32\), 15 MB of runtime, on the CPU$/,
    );
  });

  it('continues a text as mtl generate does', async () => {
    await page.getByLabel('Sample').uncheck();
    await ask('the cat number', 12);
    await page.getByText(/^12 tokens, [\d.]+ tokens a second\.$/).waitFor();
    expect(await answer()).toBe(await generateGreedily('the cat number', 12));
  }, 120_000);

  it('samples: two texts of a high temperature differ', async () => {
    await page.getByLabel('Sample').check();
    await page.getByRole('slider', { name: 'Temperature' }).fill('2');
    const texts: (string | null)[] = [];
    for (let round = 0; round < 2; round++) {
      await ask('the', 24);
      await page.locator('#output[aria-busy=false]').waitFor();
      expect(await page.locator('#status').textContent()).toMatch(isAnswered);
      texts.push(await answer());
    }
    expect(texts[0]).not.toBe(texts[1]);
  }, 120_000);

  it('leaves out the start of a text that is too long, and tells it', async () => {
    await ask('the cat number 1 sat on the mat. '.repeat(8), 8);
    await page.getByText(/; the first \d+ tokens of the text were left out\.$/).waitFor();
  }, 120_000);

  it('has no faults that axe finds, in the light and in the dark, and fits a phone', async () => {
    const { source } = createRequire(import.meta.url)('axe-core') as { source: string };
    for (const colorScheme of ['light', 'dark'] as const) {
      await page.emulateMedia({ colorScheme });
      await page.setViewportSize({ width: 360, height: 740 });
      // the policy of the page allows no script of others, so it is run by the browser's tools
      const found = await page.evaluate(
        `${source}; axe.run().then(({ violations }) => violations.map(({ id }) => id))`,
      );
      expect(found).toEqual([]);
      expect(await page.evaluate('document.documentElement.scrollWidth')).toBeLessThanOrEqual(360);
    }
  }, 120_000);
});

describe.skipIf(!hasTransformersJs || !hasChromium)(`a page with a GPU ${skipped}`, () => {
  it('computes on a GPU that is in software where the address asks for it, and else on the CPU', async () => {
    const folder = await writePage(inDirectory('gpu'), '--load', run);
    const whole = await generateGreedily('the cat number', 6);
    for (const [search, place] of [
      ['?device=webgpu', '27 MB of runtime, on the GPU'],
      ['', '15 MB of runtime, on the CPU'],
    ] as const) {
      const chromium = new ModelPage();
      try {
        const page = await chromium.open(folder, { gpu: 'software', search });
        await page.getByText(isReady).waitFor();
        expect(await page.locator('#size').textContent()).toContain(place);
        await page.getByLabel('Sample').uncheck();
        await page.getByLabel('Text to continue').fill('the cat number');
        await page.getByLabel('Most tokens').fill('6');
        await page.getByRole('button', { name: 'Generate' }).click();
        await page.getByText(isAnswered).waitFor();
        expect(await page.locator('#output p').last().textContent()).toBe(whole);
      } finally {
        await chromium.close();
      }
    }
  }, 300_000);
});

describe.skipIf(!hasTransformersJs || !hasChromium)(`a page with a chat template ${skipped}`, () => {
  const chromium = new ModelPage();
  afterAll(async () => await chromium.close());

  it('converses by keys, keeps the conversation, and stops', async () => {
    const model = inDirectory('chat-model');
    await writeChatModel(model, run);
    const page = await chromium.open(await writePage(inDirectory('chat'), '--load-hf', model));
    await page.getByText(isReady).waitFor();
    await page.getByLabel('Sample').uncheck();
    await page.getByLabel('Most tokens').fill('4');
    const message = page.getByLabel('Message');
    await message.fill('sat');
    await message.press('Control+Enter');
    await page.getByText(isAnswered).waitFor();
    const whole = await generateGreedily('user: sat the ', 4);
    expect(await page.locator('#output p').allTextContents()).toEqual([
      'sat',
      whole.slice('user: sat the '.length).trimStart(),
    ]);
    await message.fill('on');
    await page.getByLabel('Most tokens').fill('8');
    // in one task: a token takes a millisecond, so a key after the first one may come too late
    await page.evaluate(`{
      document.getElementById('form').requestSubmit();
      dispatchEvent(new KeyboardEvent('keydown', { key: 'Escape' }));
    }`);
    await page.getByText(/^1 token\b/).waitFor();
    expect(await page.locator('#output .asked').allTextContents()).toEqual(['sat', 'on']);
    await page.getByRole('button', { name: 'New conversation' }).click();
    expect(await page.locator('#output p').count()).toBe(0);
  }, 300_000);
});
