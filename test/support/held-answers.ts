/** Answers that a test holds back while it needs requests under way. */
export class HeldAnswers {
  #held: Promise<void> | undefined;

  /** Holds back all answers from now on, until the returned function is called. */
  hold(): () => void {
    let release = (): void => {};
    this.#held = new Promise((resolve) => {
      release = resolve;
    });
    return () => {
      this.#held = undefined;
      release();
    };
  }

  /** Resolves when answers may leave; undefined unless they are held back. */
  get released(): Promise<void> | undefined {
    return this.#held;
  }
}
