/**
 * A page that answers with the model in its folder. The library and the runtime are in the folder as well: nothing
 * is fetched from elsewhere. On the CPU, ONNX Runtime computes in a worker, so that the page answers while it does.
 */
import { device, settings } from './device.js';
import {
  AutoModelForCausalLM,
  AutoTokenizer,
  env,
  InterruptableStoppingCriteria,
  TextStreamer,
} from './runtime/transformers.js';

const find = (id) => document.getElementById(id);
const [form, text, output, status, progress] = ['form', 'text', 'output', 'status', 'progress'].map(find);
const [sample, temperature, lengthField] = ['sample', 'temperature', 'length'].map(find);
const [generateButton, stopButton, restartButton] = ['generate', 'stop', 'restart'].map(find);

env.allowRemoteModels = false;
env.allowLocalModels = true;
env.localModelPath = './';
// a model that was converted again has the same address: the browser's own cache asks whether it changed
env.useBrowserCache = false;
env.useWasmCache = false;
env.backends.onnx.wasm.wasmPaths = new URL('runtime/', document.baseURI).href;
env.backends.onnx.wasm.numThreads = 1;
env.backends.onnx.wasm.proxy = device === 'wasm';

const inMegabytes = (bytes) => `${(bytes / 1e6).toFixed(bytes < 1e7 ? 1 : 0)} MB`;
const say = (words) => {
  status.textContent = words;
};
const fail = (error) => {
  status.classList.add('failed');
  const advice = device === 'webgpu' ? ' Add ?device=wasm to the address to compute on the CPU.' : '';
  say(`This does not work: ${error?.message ?? error}${advice}`);
};

const stopping = new InterruptableStoppingCriteria();
let tokenizer;
let model;
/** The messages of the conversation, where the model has a chat template. */
let messages = [];

async function load() {
  const { modelBytes, dtype, hasChatTemplate, maxPositions } = settings;
  const [runtimeBytes, place] =
    device === 'wasm' ? [settings.runtimeBytes, 'CPU'] : [settings.gpuRuntimeBytes, 'GPU'];
  find('size').textContent =
    `${inMegabytes(modelBytes)} of model (${dtype}), ${inMegabytes(runtimeBytes)} of runtime, on the ${place}`;
  const loaded = new Map();
  const onProgress = ({ status: kind, file, loaded: bytes }) => {
    if (kind !== 'progress') return;
    loaded.set(file, bytes);
    const sum = [...loaded.values()].reduce((total, one) => total + one, 0);
    progress.value = Math.min(sum / modelBytes, 1);
  };
  tokenizer = await AutoTokenizer.from_pretrained('model');
  const options = { dtype, device, progress_callback: onProgress };
  model = await AutoModelForCausalLM.from_pretrained('model', options);
  lengthField.max = String(maxPositions - 1);
  lengthField.value = String(Math.min(100, Math.floor(maxPositions / 2)));
  if (hasChatTemplate) {
    find('text-label').textContent = 'Message';
    restartButton.hidden = false;
  }
  progress.hidden = true;
  generateButton.disabled = false;
  say('Ready.');
}

/** Tells whether the end of the answers is in sight, where it then stays. */
let followsEnd = true;
const followEnd = () => {
  if (followsEnd) output.scrollTop = output.scrollHeight;
  // keys scroll what has the focus
  if (output.scrollHeight > output.clientHeight) output.tabIndex = 0;
  else output.removeAttribute('tabindex');
};

/** Adds a paragraph to the answers. */
function addParagraph(words, kind) {
  const paragraph = document.createElement('p');
  paragraph.className = kind;
  paragraph.append(words);
  output.append(paragraph);
  followsEnd = true;
  followEnd();
  return paragraph;
}

/** Appends words to a paragraph, as one text, which does not begin with spaces. */
function appendWords(paragraph, words) {
  paragraph.firstChild.appendData(paragraph.textContent === '' ? words.trimStart() : words);
  followEnd();
}

/** Returns the tokens of the prompt: the last ones that leave room for the answer. */
function encodePrompt(prompt, room) {
  const inputs = tokenizer(prompt, {
    add_special_tokens: !settings.hasChatTemplate && tokenizer.add_bos_token === true,
  });
  const length = inputs.input_ids.dims[1];
  if (length <= room) return { inputs, cut: 0 };
  const last = (tensor) => tensor.slice(null, [length - room, length]);
  return {
    inputs: { input_ids: last(inputs.input_ids), attention_mask: last(inputs.attention_mask) },
    cut: length - room,
  };
}

async function answer() {
  const asked = text.value;
  const isChat = settings.hasChatTemplate;
  const numTokens = Number(lengthField.value);
  if (isChat) messages.push({ role: 'user', content: asked });
  const prompt = isChat
    ? tokenizer.apply_chat_template(messages, { tokenize: false, add_generation_prompt: true })
    : asked;
  const { inputs, cut } = encodePrompt(prompt, settings.maxPositions - numTokens);
  if (isChat) addParagraph(asked, 'asked');
  const target = isChat ? addParagraph('', 'answered') : addParagraph(asked, 'continued');
  // a screen reader reads the answer when it is whole, instead of each token
  target.ariaHidden = 'true';
  say('Answering…');
  const start = performance.now();
  let [first, count, answered] = [undefined, 0, ''];
  const streamer = new TextStreamer(tokenizer, {
    skip_prompt: true,
    skip_special_tokens: true,
    callback_function: (part) => {
      answered += part;
      appendWords(target, part);
    },
    token_callback_function: () => {
      first ??= performance.now();
      count += 1;
    },
  });
  stopping.reset();
  try {
    await model.generate({
      ...inputs,
      max_new_tokens: numTokens,
      do_sample: sample.checked,
      temperature: Number(temperature.value),
      streamer,
      stopping_criteria: stopping,
    });
  } finally {
    target.ariaHidden = null;
  }
  const seconds = (performance.now() - (first ?? start)) / 1000;
  const speed = count > 1 ? `, ${((count - 1) / seconds).toFixed(1)} tokens a second` : '';
  const wasCut = cut > 0 ? `; the first ${cut} tokens of the text were left out` : '';
  if (isChat) messages.push({ role: 'assistant', content: answered });
  say(`${count} token${count === 1 ? '' : 's'}${speed}${wasCut}.`);
}

/** Enables the buttons for a state. The focus moves only from a button that is disabled. */
function show(isRunning) {
  const { activeElement: focused } = document;
  generateButton.disabled = isRunning;
  stopButton.disabled = !isRunning;
  restartButton.disabled = isRunning;
  output.ariaBusy = String(isRunning);
  if (focused === document.body || focused.disabled) (isRunning ? stopButton : text).focus();
}

async function submit(event) {
  event.preventDefault();
  if (generateButton.disabled) return;
  status.classList.remove('failed');
  show(true);
  try {
    await answer();
    if (settings.hasChatTemplate) text.value = '';
  } catch (error) {
    fail(error);
  }
  show(false);
}

form.addEventListener('submit', submit);
stopButton.addEventListener('click', () => stopping.interrupt());
restartButton.addEventListener('click', () => {
  messages = [];
  output.replaceChildren();
  followEnd();
  say('A new conversation.');
  text.focus();
});
temperature.addEventListener('input', () => {
  find('temperature-value').textContent = Number(temperature.value).toFixed(1);
});
sample.addEventListener('change', () => {
  temperature.disabled = !sample.checked;
});
output.addEventListener('scroll', () => {
  followsEnd = output.scrollHeight - output.scrollTop - output.clientHeight < 40;
});
new ResizeObserver(followEnd).observe(output);
addEventListener('keydown', (event) => {
  if (event.key === 'Escape') stopping.interrupt();
  if (event.key === 'Enter' && event.ctrlKey) form.requestSubmit();
});

load().catch(fail);
