/** `org/name`, or the name alone: of a model on huggingface.co, and of no path that says so. */
const repositoryName = /^(?!\.{1,2}(\/|$))[\w.-]+(\/[\w.-]+)?$/;

/**
 * Returns what to do where a directory of a model is missing: the command that downloads the model of that
 * name, since nothing here does, and the directory that it makes.
 */
export function downloadAdvice(directory: string, flag: string): string {
  if (!repositoryName.test(directory)) return 'check the path; nothing is downloaded';
  const local = directory.split('/').at(-1)!;
  const passed = [flag, local].filter((word) => word !== '').join(' ');
  return (
    `nothing is downloaded here: where it is a model of huggingface.co, run hf download ${directory} --local-dir ${local} ` +
    `(of pip install huggingface_hub), then pass ${passed}`
  );
}
