"""word_vectors in a small form: learns, prints neighbours, writes vectors, stops and resumes, repeats itself.

Usage: word_vectors_test.py PROGRAM
"""
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest

PROGRAM = sys.argv.pop(1)
SMALL = ["--quiet", "--rows", "20000", "--dim", "32", "--batch", "128", "--negatives", "64"]
BRIEF = "FERRY_TEST_BRIEF" in os.environ  # under a sanitizer: too short to learn
WALL = "words_per_second_wall"


class WordVectors(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def run_program(self, *arguments, code=0):
        result = subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=300)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        return result

    def figures(self, name, *arguments):
        self.run_program(*SMALL, *arguments, "--json", self.path(name))
        with open(self.path(name)) as file:
            return json.load(file)

    def test_learns_and_prints_what_it_knows(self):
        steps = 100 if BRIEF else 1500
        figures = self.figures("figures.json", "--steps", str(steps), "--vectors", self.path("vectors.txt"),
                               "--neighbours", "love", "--neighbours", "computerish")
        self.assertEqual(figures["steps"], steps)
        self.assertEqual(figures["table_bytes"], 20000 * 32 * 4)
        if not BRIEF:
            self.assertLess(figures["loss"]["last"], 0.98 * figures["loss"]["first"])
            # Words that share n-grams are close from early on, known or not.
            self.assertTrue({"loved", "loves", "lover", "lovers", "love's"} &
                            {neighbour["word"] for neighbour in figures["neighbours"]["love"]})
            self.assertIn("computer", [neighbour["word"] for neighbour in figures["neighbours"]["computerish"]])
        for neighbours in figures["neighbours"].values():
            scores = [neighbour["score"] for neighbour in neighbours]
            self.assertEqual(scores, sorted(scores, reverse=True))
            self.assertTrue(all(-1.001 <= score <= 1.001 for score in scores))

        with open(self.path("vectors.txt")) as file:
            count, dim = map(int, file.readline().split())
            vectors = {line.split()[0]: [float(number) for number in line.split()[1:]] for line in file}
        self.assertEqual((count, dim), (figures["vocabulary"], 32))
        self.assertEqual(len(vectors), count)
        self.assertTrue(all(len(vector) == dim for vector in vectors.values()))

    def test_repeats_itself_on_the_virtual_clock(self):
        first, second = (self.figures(f"{i}.json", "--steps", "20", "--device", "sim:gtx1060") for i in range(2))
        self.assertEqual(first["time"], "virtual")
        self.assertGreater(first["time_ms"], 0)
        self.assertAlmostEqual(first["virtual_ms_per_step"] * 20, first["time_ms"], delta=0.5 * first["time_ms"])
        self.assertGreater(first["words_per_second_virtual"], 0)
        output = self.run_program(*SMALL, "--steps", "20", "--device", "sim:gtx1060").stdout
        self.assertRegex(output, r"On sim:gtx1060, virtual time: [0-9.]+ ms a step, [0-9]+ words/s; peak device memory")
        del first[WALL], second[WALL]
        self.assertEqual(first, second)

    def test_continues_after_an_interruption_as_if_there_had_been_none(self):
        training = ["--steps", "200" if BRIEF else "600", "--checkpoint-every", "5"]
        whole = self.figures("whole.json", *training, "--vectors", self.path("whole.txt"))
        checkpoint = self.path("checkpoint")
        resumable = [*training, "--checkpoint", checkpoint, "--vectors", self.path("resumed.txt")]
        process = subprocess.Popen([PROGRAM, *SMALL, *resumable], stdout=subprocess.PIPE, text=True)
        while not os.path.exists(checkpoint) and process.poll() is None:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        output = process.communicate()[0]
        self.assertEqual(process.returncode, 130, output)
        self.assertIn("The same command continues", output)

        resumed = self.figures("resumed.json", *resumable)
        self.assertEqual(resumed["steps"], whole["steps"])
        self.assertEqual(resumed["loss"], whole["loss"])
        with open(self.path("whole.txt")) as a, open(self.path("resumed.txt")) as b:
            self.assertEqual(a.read(), b.read())

        other = self.run_program(*SMALL, *resumable, "--window", "2", code=2)
        self.assertIn("was made with --window 5, this run has 2", other.stderr)
        # Without --rows those of the checkpoint are taken.
        without = [option for option in SMALL if option not in ("--rows", "20000")]
        more = self.run_program(*without, *resumable, "--rows", "30000", code=2)
        self.assertIn("was made with --rows 20000, this run has 30000", more.stderr)
        output = self.run_program(*without, *resumable).stdout
        self.assertIn("Table: 20000 x 32", output)
        self.assertIn("Continuing from", output)

    def test_says_what_is_wrong_in_one_line(self):
        with open(self.path("short.txt"), "w") as file:
            file.write("one\n")
        for arguments, message in ((["--text", self.path("short.txt")], "two are needed"),
                                   (["--text", self.path("absent")], "absent"),
                                   (["--rows", "2000"], "rows are too few"),
                                   (["--device", "sim:none"], "'none'"),
                                   (["--device", "sim:host"], "is no GPU"),
                                   (["--vectors", self.path("absent/v.txt")], "absent/v.txt: No such file"),
                                   (["--json", self.path("absent/f.json")], "absent/f.json: No such file"),
                                   (["--profile", self.path("absent/p.html")], "absent/p.html: No such file"),
                                   (["--checkpoint", self.folder], "it is a folder"),
                                   (["--checkpoint", self.path("short.txt")], "short.txt: byte")):
            result = self.run_program("--quiet", *arguments, code=2)
            self.assertIn(message, result.stderr)
            self.assertNotIn("terminate", result.stderr)

    def test_prints_a_profiling_report(self):
        result = self.run_program(*SMALL, "--steps", "12", "--profile", self.path("run.json"), "--profile-steps", "3")
        self.assertIn("Profiling Report", result.stdout)
        self.assertIn("embedding_bag", result.stdout)
        short = self.run_program(*SMALL, "--steps", "3", "--profile")
        self.assertIn("No report: --profile records what follows the first 5 steps", short.stdout)
        with open(self.path("run.json")) as file:
            self.assertTrue(json.load(file))


if __name__ == "__main__":
    unittest.main()
