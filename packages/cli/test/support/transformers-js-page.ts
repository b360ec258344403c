import { copyFileSync, cpSync, mkdirSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import {
  answerQuestionsFile,
  type TransformersJsAnswer,
  type TransformersJsQuestion,
  transformersJsFolder,
} from '@mtl/tooling/ask-transformers-js';
import { ModelPage } from './model-page.js';

/** The library and ONNX Runtime in WebAssembly, by their paths in node_modules. */
const files = {
  'transformers.js': '@huggingface/transformers/dist/transformers.web.min.js',
  'onnxruntime.js': 'onnxruntime-web/dist/ort.wasm.min.mjs',
  'ort-wasm-simd-threaded.mjs': 'onnxruntime-web/dist/ort-wasm-simd-threaded.mjs',
  'ort-wasm-simd-threaded.wasm': 'onnxruntime-web/dist/ort-wasm-simd-threaded.wasm',
} as const;

const html = `<!doctype html>
<link rel="icon" href="data:," />
<script type="importmap">
  { "imports": { "onnxruntime-common": "./onnxruntime.js", "onnxruntime-web/webgpu": "./onnxruntime.js" } }
</script>
<script type="module">
  import * as library from './transformers.js';
  import { answerQuestions } from './answer-questions.mjs';
  const { env } = library;
  env.allowRemoteModels = false;
  env.allowLocalModels = true;
  env.useBrowserCache = false;
  env.useWasmCache = false;
  env.backends.onnx.wasm.wasmPaths = new URL('./', document.baseURI).href;
  env.backends.onnx.wasm.numThreads = 1;
  window.answer = (questions) => answerQuestions(library, questions);
</script>
`;

/**
 * Asks transformers.js in Chromium, with ONNX Runtime in WebAssembly and no network but a static server.
 *
 * @returns the answers, as `askTransformersJs` gives them in Node
 */
export async function askTransformersJsInChromium(
  folder: string,
  questions: readonly TransformersJsQuestion[],
): Promise<readonly TransformersJsAnswer[]> {
  mkdirSync(folder);
  const modules = join(transformersJsFolder, 'node_modules');
  for (const [name, path] of Object.entries(files)) copyFileSync(join(modules, path), join(folder, name));
  copyFileSync(answerQuestionsFile, join(folder, 'answer-questions.mjs'));
  writeFileSync(join(folder, 'index.html'), html);
  for (const directory of new Set(questions.map(({ directory }) => directory))) {
    cpSync(directory, join(folder, 'models', basename(directory)), { recursive: true });
  }
  const placed = questions.map(({ directory, ...question }) => ({
    ...question,
    name: basename(directory),
    parent: 'models/',
  }));
  const chromium = new ModelPage();
  try {
    const page = await chromium.open(folder);
    await page.waitForFunction('window.answer !== undefined');
    return JSON.parse(await page.evaluate(`answer(${JSON.stringify(placed)})`));
  } finally {
    await chromium.close();
  }
}
