// One instance of every kind that tools/check_kinds.sh refuses.
#include <fstream>
#include <iostream>

void count(double low, double high, double step, const char* path, std::istream& input) {
  for (double x = low; x < high; x += step) std::cerr << x;
  for (int tick = 0; low + tick * step <= high; ++tick) std::cerr << tick;
  for (float value = 1; value < 1e30f; value *= 7) std::cerr << value;
  for (std::string line; std::getline(input, line);) std::cerr << line;
  std::string line, text(std::istreambuf_iterator<char>(input), {});
  for (std::size_t i = 0; i < text.size(); ++i) line += text[i];
  std::cout << "name: " << path << "\n";
  std::printf("%s\n", path);
  std::fprintf(stdout, "%s\n", path);
  std::ofstream(path) << text;
  std::ofstream file(path);
  std::FILE* opened = std::fopen(path, "w");
  const int first = ::open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
  const int second = ::open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0666);
  const int third_descriptor_of_the_same_path =
      ::open(path_of_the_third_descriptor(path, kReplaced), O_RDWR | O_APPEND);
  ::setenv("LD_LIBRARY_PATH", (std::string(path) + ":" + value).c_str(), 1);
  for (const std::string& part : split(search, ':'))
    if (exists((part.empty() ? "." : part) + name)) return;
  dlopen("plugins/libours.so", RTLD_NOW);
}

void fine(const std::vector<double>& values, const std::string& path) {
  for (const double value : values) std::cerr << value;
  for (int i = 0; i < 3; ++i) std::cerr << i * 2.5;
  const int made =
      ::open(path_of_the_third_descriptor(path.c_str(), kReplaced), O_WRONLY | O_CREAT | O_EXCL);
  const int nowhere = open("/dev/null", O_WRONLY);
  // check_kinds: followed_link: the reason
  const int device = ::open(path.c_str(), O_WRONLY);
  std::ifstream input(path);
  char text[32];
  std::snprintf(text, sizeof text, "%d", made);
}
