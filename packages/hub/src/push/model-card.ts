import { sizeText } from '../size-text.js';
import type { ModelFormat, PushedFile } from './pushed-files.js';

/**
 * The known facts about a model. All facts are published, so none of the values may reveal anything about
 * this machine.
 */
export interface ModelCardFacts {
  /** `org/name` */
  readonly name: string;
  readonly format: ModelFormat;
  readonly files: readonly PushedFile[];
  /**
   * The Hub's identifier for the license, such as `apache-2.0`. Default: the model card states that no
   * license was chosen.
   */
  readonly license?: string | undefined;
  /** The name `org/name` of the model from which training started. */
  readonly baseModel?: string | undefined;
  /** Fields of config.json by their names. */
  readonly architecture?: Readonly<Record<string, string | number>> | undefined;
  readonly training?: TrainingFacts | undefined;
}

/** The facts that a training run's record contains. */
export interface TrainingFacts {
  /** The program and its version, such as `mtl 0.1.0`. */
  readonly program: string;
  readonly iterations: number;
  /** The flags that affect what the model learns. */
  readonly flags: Readonly<Record<string, string | number | boolean>>;
  /**
   * The training data: the datasets' names without folders, their sizes, and the first digits of their
   * SHA-256 hashes.
   */
  readonly data: readonly { readonly name: string; readonly bytes: number; readonly sha256: string }[];
  /** Losses of steps, oldest first. */
  readonly losses: readonly { readonly iteration: number; readonly loss: number }[];
  /** Evaluations on held-out data, oldest first. */
  readonly evaluations: readonly { readonly iteration: number; readonly loss: number }[];
}

/** The maximum number of rows in the model card's table of losses. */
const numRows = 12;

/**
 * Returns a model card in Markdown with YAML metadata: what the model is, from which model training started,
 * how to load it, and how it was trained.
 *
 * https://huggingface.co/docs/hub/model-cards
 */
export function modelCard(facts: ModelCardFacts): string {
  const { name, format, files, license, baseModel, architecture, training } = facts;
  const bytes = files.reduce((sum, file) => sum + file.bytes, 0);
  const sections = [
    metadata(facts),
    `# ${inLine(name.split('/')[1]!)}`,
    'Generated from the record of the training run; edit it before others rely on the model: what it is for, where it ' +
      'fails, and what its data may be used for, only its authors know.',
    section('How to load it', loading(facts)),
    section(
      'Files',
      `${files.map((each) => `- \`${each.file}\`, ${sizeText(each.bytes)}`).join('\n')}\n\n${sizeText(bytes)} in all, ${formats[format]}.`,
    ),
    ...(baseModel === undefined
      ? []
      : [section('Base model', `Training began with [${baseModel}](https://huggingface.co/${baseModel}).`)]),
    ...(architecture === undefined
      ? []
      : [section('Architecture', table(['field', 'value'], Object.entries(architecture)))]),
    ...(training === undefined ? [] : ofTraining(training)),
    section(
      'License',
      license === undefined
        ? 'None was chosen: without a license others may not use the model.'
        : `\`${inLine(license)}\``,
    ),
  ];
  return `${sections.join('\n\n')}\n`;
}

const formats: Readonly<Record<ModelFormat, string>> = {
  transformers: 'in the format of the transformers library',
  peft: 'low-rank adapters in the format of PEFT',
  gguf: 'in the GGUF format of llama.cpp',
};

function metadata({ format, license, baseModel }: ModelCardFacts): string {
  const libraries = { transformers: 'transformers', peft: 'peft', gguf: 'gguf' } as const;
  const lines = [
    ...(license === undefined ? [] : [`license: ${inYaml(license)}`]),
    ...(baseModel === undefined ? [] : [`base_model: ${inYaml(baseModel)}`]),
    `library_name: ${libraries[format]}`,
    'tags:',
    '- mtl',
  ];
  return ['---', ...lines, '---'].join('\n');
}

function loading({ name, format, baseModel, files }: ModelCardFacts): string {
  const code = (language: string, ...lines: string[]): string =>
    `\`\`\`${language}\n${lines.join('\n')}\n\`\`\``;
  if (format === 'gguf') {
    const [first] = files.filter(({ file }) => file.endsWith('.gguf'));
    return code('sh', `llama-cli -hf ${name} -hff ${first?.file ?? ''}`.trim());
  }
  if (format === 'peft') {
    const base = baseModel ?? 'ORG/BASE-MODEL';
    return [
      code('sh', `mtl generate --load-hf ${base} --load-lora ${name} --prompt 'Hello'`),
      code(
        'python',
        'from transformers import AutoModelForCausalLM',
        'from peft import PeftModel',
        '',
        `model = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained("${base}"), "${name}")`,
      ),
    ].join('\n\n');
  }
  return [
    code('sh', `mtl generate ${name} --prompt 'Hello'`),
    code(
      'python',
      'from transformers import AutoModel, AutoTokenizer',
      '',
      `model = AutoModel.from_pretrained("${name}")`,
      `tokenizer = AutoTokenizer.from_pretrained("${name}")`,
    ),
  ].join('\n\n');
}

function ofTraining({ program, iterations, flags, data, losses, evaluations }: TrainingFacts): string[] {
  const rows = evenly(losses).map(({ iteration, loss }) => [iteration, shownLoss(loss)] as const);
  const checked = evenly(evaluations).map(
    ({ iteration, loss }) => [iteration, shownLoss(loss), shownLoss(Math.exp(loss))] as const,
  );
  return [
    section('Training', `${iterations.toLocaleString('en-US')} steps with ${inLine(program)}.`),
    ...(Object.keys(flags).length === 0
      ? []
      : [
          section(
            'Configuration',
            table(
              ['flag', 'value'],
              Object.entries(flags).map(([name, value]) => [`--${name}`, String(value)]),
            ),
          ),
        ]),
    ...(data.length === 0
      ? []
      : [
          section(
            'Data',
            table(
              ['dataset', 'size', 'SHA-256 of samples'],
              data.map((each) => [each.name, sizeText(each.bytes), each.sha256.slice(0, 12)]),
            ),
          ),
        ]),
    ...(rows.length === 0 ? [] : [section('Loss', table(['step', 'training loss'], rows))]),
    ...(checked.length === 0
      ? []
      : [section('Evaluation', table(['step', 'validation loss', 'perplexity'], checked))]),
  ];
}

const section = (title: string, text: string): string => `## ${title}\n\n${text}`;

const shownLoss = (loss: number): string => (Number.isFinite(loss) ? loss.toFixed(4) : 'not finite');

function table(titles: readonly string[], rows: readonly (readonly (string | number)[])[]): string {
  const line = (cells: readonly (string | number)[]): string =>
    `| ${cells.map((cell) => inLine(String(cell))).join(' | ')} |`;
  return [line(titles), line(titles.map(() => '---')), ...rows.map(line)].join('\n');
}

/** Returns at most `numRows` of the given entries, evenly spaced, including the first and the last entry. */
function evenly<Entry>(entries: readonly Entry[]): readonly Entry[] {
  if (entries.length <= numRows) return entries;
  const last = entries.length - 1;
  return Array.from({ length: numRows }, (_, at) => entries[Math.round((at * last) / (numRows - 1))]!);
}

/** Escapes a string for a cell of a Markdown table: removes line breaks, cell separators and HTML. */
const inLine = (text: string): string =>
  text.replaceAll(/\s+/g, ' ').replaceAll('|', '\\|').replaceAll('<', '&lt;');

/** Returns a text as a YAML scalar. */
const inYaml = (text: string): string => (/^[\w./-]+$/.test(text) ? text : JSON.stringify(text));
