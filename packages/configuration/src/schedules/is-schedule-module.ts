/** Tells whether the value of --pipeline-schedule is a module, which is run. */
export function isScheduleModule(name: string): boolean {
  return /\.[cm]?js$/.test(name);
}
