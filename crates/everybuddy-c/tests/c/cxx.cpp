// The header in C++17: a system and its tokens as objects that end by themselves.
#include <everybuddy.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

void require(eb_status status)
{
    if (status != EB_OK)
        throw std::runtime_error(eb_error_message(status));
}

class Frames {
public:
    Frames(const std::vector<eb_range> &map, std::uint32_t cpus, const char *name)
    {
        eb_setup setup = eb_setup_new(map.data(), map.size(), cpus);
        setup.system = name;
        std::size_t bytes = 0;
        eb_error error;
        if (eb_metadata_size(&setup, &bytes, &error) != EB_OK)
            throw std::runtime_error(error.text);
        memory.reset(std::aligned_alloc(EB_ALIGNMENT, bytes));
        if (eb_build(&setup, memory.get(), bytes, &system, &error) != EB_OK)
            throw std::runtime_error(error.text);
    }
    ~Frames() { eb_destroy(system); }
    Frames(const Frames &) = delete;
    Frames &operator=(const Frames &) = delete;

    eb_system *get() const { return system; }

private:
    struct Free {
        void operator()(void *pointer) const { std::free(pointer); }
    };
    std::unique_ptr<void, Free> memory;
    eb_system *system = nullptr;
};

class Cpu {
public:
    Cpu(const Frames &frames, std::uint32_t number) { require(eb_cpu_claim(frames.get(), number, &cpu)); }
    ~Cpu() { eb_cpu_release(cpu); }
    Cpu(const Cpu &) = delete;
    Cpu &operator=(const Cpu &) = delete;

    std::uint32_t allocate(std::uint32_t order)
    {
        std::uint32_t frame = 0;
        require(eb_allocate(cpu, order, EB_MOVABLE, &frame));
        return frame;
    }
    void free(std::uint32_t frame, std::uint32_t order) { require(eb_free(cpu, frame, order)); }
    eb_cpu *get() const { return cpu; }

private:
    eb_cpu *cpu = nullptr;
};

} // namespace

int main()
{
    const std::vector<eb_range> map{{0, 4096}};
    for (std::size_t i = 0; i < eb_system_count(); i++) {
        Frames frames(map, 2, eb_system_name(i));
        std::vector<std::uint32_t> blocks;
        std::thread other([&] {
            Cpu cpu(frames, 1);
            for (int block = 0; block < 100; block++)
                blocks.push_back(cpu.allocate(2));
        });
        other.join();
        Cpu cpu(frames, 0);
        for (std::uint32_t block : blocks)
            cpu.free(block, 2);
        eb_request request = eb_request_frames(5);
        eb_place place = eb_place_anywhere();
        std::uint32_t run = 0;
        require(eb_allocate_in(cpu.get(), &request, &place, &run));
        eb_release release = eb_release_frames(run, 5), block = eb_release_order(blocks[0], 2);
        require(eb_free_release(cpu.get(), &release));
        // Misuse becomes an exception.
        try {
            require(eb_free_release(cpu.get(), &block));
            std::fprintf(stderr, "%s: freed twice\n", eb_system_name(i));
            return 1;
        } catch (const std::runtime_error &error) {
            if (std::string(error.what()).find("free already") == std::string::npos)
                return 1;
        }
    }
    try {
        Frames none(map, 1, "nothing");
        return 1;
    } catch (const std::runtime_error &error) {
        std::printf("C++: %zu systems; %s\n", eb_system_count(), error.what());
    }
    return 0;
}
